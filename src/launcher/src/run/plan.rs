//! What a run will be: the library, the variables, the files. Made from options and environment before anything
//! happens; also what `--dry-run` shows.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::cli::Cli;
use super::handshake::ALIVE;
use super::inspect::{Elf, Image};
use super::locate::locate;
use super::mac;
use super::output::Output;
use super::preload::{check_path, is_asan, merge, PRELOAD};
use super::refused::refused;
use super::say::{quote, say, show};
use super::size::parse_size;
use super::target::{find, follow, look, Step};
use super::why::{explain, unexplained, wants_asan_first};

/// The variable with the pattern for records.
pub const LOG: &str = "FASTCALLOC_LOG";

/// One run.
pub struct Plan {
    /// The library to preload.
    pub library: PathBuf,
    /// The library is told to do nothing, by option or variable.
    pub off: bool,
    /// Where records go, if any are wanted.
    pub output: Option<Output>,
    steps: Vec<Step>,
    variables: Vec<(&'static str, OsString)>,
}

impl Plan {
    /// Puts options and environment together.
    ///
    /// # Errors
    /// A sentence for the user: no library, a path that cannot be preloaded, a bad size or output path.
    pub fn new(cli: &Cli) -> Result<Plan, String> {
        let executable = std::env::current_exe().ok();
        let library = locate(variable("FASTCALLOC_LIB").as_deref(), executable.as_deref())?;
        check_path(library.as_os_str())?;

        let mut variables = Vec::new();
        for (name, option) in [("FASTCALLOC_THRESHOLD", cli.threshold), ("FASTCALLOC_RETAIN", cli.retain)] {
            if let Some(bytes) = option.map_or_else(|| size_variable(name), |bytes| Ok(Some(bytes)))? {
                variables.push((name, bytes.to_string().into()));
            }
        }
        if let Some(every) = cli.sites {
            variables.push(("FASTCALLOC_SITES", every.to_string().into()));
        }
        if cli.off {
            variables.push(("FASTCALLOC_DISABLE", "1".into()));
        }
        // As the shim reads it.
        let off = cli.off
            || variable("FASTCALLOC_DISABLE")
                .is_some_and(|value| !["0", "no", "off", "false"].iter().any(|no| value == *no));
        let wanted = cli.output.clone().or_else(|| variable(LOG).filter(|_| cli.stats));
        let output = wanted.map(|path| Output::parse(&path)).transpose()?;

        let path = variable("PATH");
        let mut steps = follow(&cli.command[0], path.as_deref());
        if cfg!(target_os = "macos") {
            // `env` is left out of the run ([`Plan::command`]), and so it is no obstacle.
            let direct = mac::direct(&cli.command, path.as_deref());
            steps.retain(|step| direct.as_slice() == cli.command || step.path != Path::new("/usr/bin/env"));
        }
        let old = std::env::var_os(PRELOAD);
        let preload = merge(library.as_os_str(), old.as_deref());
        let asan_leads = is_asan(preload.as_bytes().split(|&b| b == b':').next().unwrap_or_default());
        let fatal =
            cfg!(target_os = "macos") && mac::reason(&steps, &library).is_some_and(|(_, fatal)| fatal);
        if !fatal && (asan_leads || !steps.iter().any(wants_asan_first)) {
            variables.push((PRELOAD, preload));
        }
        Ok(Plan { library, off, output, steps, variables })
    }

    /// Sets the variables in the launcher's own environment, from where the program inherits them.
    pub fn apply(&self, alive: Option<&Path>) {
        for (name, value) in &self.variables {
            std::env::set_var(name, value);
        }
        if let Some(output) = &self.output {
            std::env::set_var(LOG, output.pattern());
        }
        if let Some(file) = alive {
            std::env::set_var(ALIVE, file);
        }
    }

    /// The command as a shell would take it, with the variables in front.
    pub fn line(&self, cli: &Cli, alive: &str) -> String {
        let mut words: Vec<String> =
            self.variables.iter().map(|(n, v)| format!("{n}={}", quote(v))).collect();
        if let Some(output) = &self.output {
            words.push(format!("{LOG}={}", quote(&output.pattern())));
        }
        words.push(format!("{ALIVE}={alive}"));
        words.extend(cli.command.iter().map(quote));
        words.join(" ")
    }

    /// `--dry-run`: says what would be run, and returns the exit status.
    pub fn show(&self, cli: &Cli) -> i32 {
        let program = match find(&cli.command[0], variable("PATH").as_deref()) {
            Ok(program) => program,
            Err(error) => return refused(&error, cli, self),
        };
        say(&format!("would run {}", show(&program)));
        say(&self.line(cli, "(made for the run)"));
        if let Some(reason) = self.reason() {
            say(&format!("the library would not come alive: {reason}"));
        }
        0
    }

    /// Why the library did not come alive in a program that a signal may have `killed`.
    pub fn why(&self, killed: Option<&str>) -> String {
        self.reason().unwrap_or_else(|| unexplained(&self.steps, killed))
    }

    /// The program that nothing keeps from loading the library.
    pub fn injectable(&self) -> Option<&Path> {
        self.steps.last().filter(|_| self.reason().is_none()).map(|step| step.path.as_path())
    }

    /// The command as it is to be executed.
    pub fn command(&self, command: &[OsString]) -> Vec<OsString> {
        if cfg!(target_os = "macos") {
            return mac::direct(command, variable("PATH").as_deref());
        }
        command.to_vec()
    }

    fn reason(&self) -> Option<String> {
        if cfg!(target_os = "macos") {
            return mac::reason(&self.steps, &self.library).map(|(reason, _)| reason);
        }
        let library = match look(self.library.clone()).image {
            Ok(Image::Elf(elf)) => Ok::<Elf, String>(elf),
            Ok(_) => Err("is not an ELF library".into()),
            Err(kind) => Err(format!("cannot be read ({kind})")),
        };
        explain(&self.steps, &self.library, &library)
    }

    /// The interpreter or loader that keeps an existing file from being executed.
    pub fn missing_interpreter(&self) -> Option<String> {
        let last = self.steps.last()?;
        match &last.image {
            Err(std::io::ErrorKind::NotFound) if self.steps.len() > 1 => Some(show(&last.path)),
            Ok(Image::Elf(Elf { loader: Some(loader), .. })) => {
                let loader = Path::new(OsStr::from_bytes(loader));
                (!loader.exists()).then(|| show(loader))
            }
            _ => None,
        }
    }

    /// The interpreter that may not be executed.
    pub fn denied_interpreter(&self) -> Option<String> {
        let mut interpreters = self.steps.iter().skip(1).map(|step| &step.path);
        let denied = |path: &&PathBuf| {
            find(path.as_os_str(), None).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
        };
        interpreters.find(denied).map(show)
    }
}

/// A variable, unless it is empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn size_variable(name: &str) -> Result<Option<u64>, String> {
    let Some(value) = variable(name) else { return Ok(None) };
    let text = value.to_str().unwrap_or("?");
    parse_size(text).map(Some).map_err(|what| format!("{name}={}: {what}", show(&value)))
}
