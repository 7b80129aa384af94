//! `fastcalloc-run -o ls -la`: the directory of -o was forgotten, and the command stands in its place. Depends on
//! [`super::target`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::say::quote;
use super::target::find;

/// What to say of a command line that begins with these words, the launcher's name first. Asked before it is parsed: the options
/// of the command would be taken for the launcher's.
pub fn forgotten(args: &[OsString]) -> Option<String> {
    let mut at = 1;
    let output = loop {
        match args.get(at)?.to_str()? {
            "-o" | "--output" => break at,
            "--threshold" | "--retain" => at += 2,
            word if word.starts_with('-') && word != "--" => at += 1,
            _ => return None,
        }
    };
    let value = args.get(output + 1)?;
    let said = |words: &[OsString]| words.iter().map(quote).collect::<Vec<_>>().join(" ");
    let (before, after) = (said(&args[1..output]), said(&args[output + 1..]));
    let before = if before.is_empty() { before } else { format!("{before} ") };
    let option = quote(&args[output]);
    let is_program = find(value, std::env::var_os("PATH").as_deref()).is_ok() && !Path::new(value).is_dir();
    if is_program {
        let program = quote(value);
        let otherwise = if value.as_bytes().contains(&b'/') {
            String::new()
        } else {
            format!(" (for a directory of that name write {option} ./{program})")
        };
        return Some(format!(
            "{option} takes the directory for the records, and {program} is a program: \
             write fastcalloc-run {before}{option} DIR {after}{otherwise}"
        ));
    }
    (args.len() == output + 2 && !value.is_empty()).then(|| {
        format!(
            "there is no COMMAND: {option} took {} for the directory of the records; \
             write fastcalloc-run {before}{option} {} COMMAND",
            quote(value),
            quote(value)
        )
    })
}
