//! What the figures were measured on.

use crate::results::Machine;
use crate::setup::output;
use std::fs::read_to_string;
use std::process::Command;

/// Reads it; what cannot be read stays empty.
pub fn describe() -> Machine {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let (cpu, memory, release) = (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/etc/os-release"));
    let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
    Machine {
        cpu: field(&cpu, "model name")
            .or_else(|| field(&cpu, "Model"))
            .unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_kib: kib(&memory, "MemTotal"),
        kernel: output(Command::new("uname").arg("-sr")).unwrap_or_default(),
        system: field(&release, "PRETTY_NAME").unwrap_or_default(),
        libc: output(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default(),
        thp: thp.split(['[', ']']).nth(1).unwrap_or("unknown").into(),
        load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
    }
}

/// KiB that can be used without swapping.
pub fn available_kib() -> u64 {
    kib(&read_to_string("/proc/meminfo").unwrap_or_default(), "MemAvailable")
}

/// UTC now.
pub fn date() -> String {
    output(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])).unwrap_or_default()
}

/// The commit of the tree, `+` when it was changed; empty outside one.
pub fn commit() -> String {
    let Ok(commit) = output(Command::new("git").args(["rev-parse", "--short=12", "HEAD"])) else {
        return String::new();
    };
    let changed =
        output(Command::new("git").args(["status", "--porcelain"])).is_ok_and(|said| !said.is_empty());
    format!("{commit}{}", if changed { "+" } else { "" })
}

/// The value of `key: value` or `key="value"`.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix([':', '='])?;
        Some(rest.trim().trim_matches('"').to_owned())
    })
}

fn kib(text: &str, key: &str) -> u64 {
    let value = field(text, key).unwrap_or_default();
    value.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_both_kinds() {
        assert_eq!(field("a\nmodel name\t: X 1\n", "model name").as_deref(), Some("X 1"));
        assert_eq!(field("PRETTY_NAME=\"Some 12\"\n", "PRETTY_NAME").as_deref(), Some("Some 12"));
        assert_eq!(kib("MemTotal:       24000 kB\n", "MemTotal"), 24000);
        assert_eq!(kib("", "MemTotal"), 0);
    }
}
