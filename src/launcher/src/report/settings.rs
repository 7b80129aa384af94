//! Which settings the processes ran with, where that is not the default of all. Depends on `draw`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::draw::{bytes, number};
use super::Loaded;

/// What holds when nothing is set; shim-tests compare it with what the library says.
const DEFAULTS: [(&str, u64); 4] = [
    ("threshold", if cfg!(target_os = "macos") { 127 << 10 } else { 128 << 10 }),
    ("retain", 64 << 20),
    ("sites", 0),
    ("off", 0),
];

/// A line, if there is anything to say.
pub fn render(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for p in &loaded.processes {
        *all.entry(deviations(&p.settings)).or_default() += 1;
    }
    if all.keys().all(String::is_empty) {
        return Ok(());
    }
    let single = all.len() == 1;
    let words: Vec<_> = all
        .into_iter()
        .map(|(words, n)| match (words.as_str(), single) {
            (_, true) => words,
            ("", _) => format!("the default in {}", number(n)),
            _ => format!("{words} in {}", number(n)),
        })
        .collect();
    writeln!(out, "\nsettings: {}", words.join("; "))
}

/// The settings of a record that are not the default.
fn deviations(settings: &str) -> String {
    let words = settings.split(' ').filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        let value: u64 = value.parse().ok()?;
        let (_, default) = DEFAULTS.iter().find(|(known, _)| *known == name)?;
        let shown = || match name {
            "off" => "off".into(),
            "sites" => format!("sites {value}"),
            _ => format!("{name} {}", bytes(value)),
        };
        (value != *default).then(shown)
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs() {
        assert_eq!(deviations("threshold=131072 retain=67108864 sites=0 off=0"), "");
        assert_eq!(
            deviations("threshold=131072 retain=0 sites=16 off=1 later=7 x"),
            "retain 0 B, sites 16, off"
        );
    }
}
