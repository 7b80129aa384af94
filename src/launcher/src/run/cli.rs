//! The command line, as data. Depends on clap and on [`super::size`].

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::size::parse_size;

const AFTER: &str = "\
Options end at the first word that is not an option; `--` ends them too.

Environment:
  FASTCALLOC_LIB        the library to inject, instead of the one beside this program or in ../lib
  FASTCALLOC_THRESHOLD  as --threshold     FASTCALLOC_RETAIN   as --retain
  FASTCALLOC_DISABLE=1  as --off           FASTCALLOC_LOG      as --output, a pattern
  FASTCALLOC_SITES=N    as --sites=N

Exit status: that of COMMAND (also its signal), or
  125  fastcalloc-run itself failed    126  COMMAND cannot be executed    127  COMMAND was not found

SIGINT and SIGQUIT are left to COMMAND, which gets them from the terminal; any other signal is handed on.";

fn parse_every(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|n| *n != 0).ok_or_else(|| {
        "not a number from 1 on: write --sites for each large calloc, or --sites=16 for one in 16".into()
    })
}

/// Run COMMAND with constant-time large calloc, without rebuilding it.
#[derive(Parser, Debug)]
#[command(name = "fastcalloc-run", version, after_help = AFTER, override_usage = "fastcalloc-run [OPTIONS] [--] COMMAND [ARGS...]")]
pub struct Cli {
    /// Print a histogram of all allocations to stderr at the end
    #[arg(long)]
    pub stats: bool,

    /// Keep the records: a directory (made if missing), or a pattern with %p (pid) and %e (program)
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<OsString>,

    /// Show on the terminal what is allocated while COMMAND runs (as `fastcalloc top`); its stdout and stderr must go elsewhere
    #[arg(long)]
    pub live: bool,

    /// Sample the call stack of each large calloc, or of one in N, and show where they came from (without -o at the end, on stderr)
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = parse_every)]
    pub sites: Option<u64>,

    /// Serve large callocs from SIZE bytes on (as 128K, 64M, 2G)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub threshold: Option<u64>,

    /// Retain at most SIZE bytes of dirty memory for reuse; 0 retains none
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub retain: Option<u64>,

    /// Load the library but leave every call to the allocator below (for comparison)
    #[arg(long)]
    pub off: bool,

    /// Print to stderr what would be run, and do not run it
    #[arg(long)]
    pub dry_run: bool,

    /// Do not check whether the library came alive, and do not warn
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Tell on stderr what is done
    #[arg(short, long)]
    pub verbose: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Cli {
    /// The command line, understood.
    ///
    /// # Errors
    /// What to print instead: help, or what is wrong and the remedy.
    pub fn understand(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let cli = Cli::try_parse_from(args).map_err(|mut error| {
            if error.kind() == ErrorKind::UnknownArgument {
                // clap advises `-- --option`, which would run a program of that name.
                error.insert(ContextKind::Suggested, ContextValue::None);
            }
            error
        })?;
        let number = cli.command.first().and_then(|word| word.to_str()?.parse::<u64>().ok());
        if let (Some(1), Some(number), true) = (cli.sites, number, cli.command.len() > 1) {
            let said = format!("the number of --sites stands behind an equals sign: --sites={number}");
            return Err(Cli::command().error(ErrorKind::InvalidValue, said));
        }
        Ok(cli)
    }

    /// Whether records are wanted at all.
    pub fn records(&self) -> bool {
        self.stats || self.live || self.output.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::understand(
            std::iter::once("fastcalloc-run").chain(args.iter().copied()).map(Into::into).collect(),
        )
    }

    #[test]
    fn options_end_at_the_first_word() {
        let cli = parse(&["-v", "ls", "-q", "--stats", "--", "-x"]).unwrap();
        assert!(cli.verbose && !cli.quiet && !cli.stats);
        assert_eq!(cli.command, ["ls", "-q", "--stats", "--", "-x"]);
    }

    #[test]
    fn double_dash_ends_options_once() {
        assert_eq!(parse(&["--", "-odd", "--", "a"]).unwrap().command, ["-odd", "--", "a"]);
        assert_eq!(parse(&["--", "--", "--help"]).unwrap().command, ["--", "--help"]);
    }

    #[test]
    fn a_mistake_is_named_with_its_remedy() {
        let said = |args: &[&str]| parse(args).unwrap_err().to_string();
        assert!(said(&["--sites", "16", "ls"]).contains("--sites=16"));
        assert!(
            said(&["--bogus", "ls"]).contains("'--bogus'")
                && !said(&["--bogus", "ls"]).contains("-- --bogus")
        );
        assert!(said(&["--stat", "ls"]).contains("'--stats'"));
        for bad in ["--sites=0", "--sites=x", "--sites=-1", "--sites=99999999999999999999"] {
            let said = said(&[bad, "ls"]);
            assert!(said.contains("'--sites[=<N>]'") && said.contains("or --sites=16 for one"), "{said}");
        }
    }

    #[test]
    fn values_and_mistakes() {
        let cli = parse(&["--threshold", "1M", "--retain=0", "-oout", "a"]).unwrap();
        assert_eq!((cli.threshold, cli.retain, cli.output), (Some(1 << 20), Some(0), Some("out".into())));
        let sites = |args: &[&str]| parse(args).unwrap().sites;
        assert_eq!(
            (sites(&["--sites", "7"]), sites(&["--sites=9", "a"]), sites(&["a"])),
            (Some(1), Some(9), None)
        );
        for bad in [
            &["-Z", "ls"][..],
            &["--bogus", "ls"],
            &["--threshold", "big", "ls"],
            &["-q", "-v", "ls"],
            &["--sites=0", "ls"],
            &["--sites=x", "ls"],
            &[],
            &["-v"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
