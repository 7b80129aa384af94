//! Why a command did not start, and what to do about it. Depends on [`super::plan`] and [`super::target`].

use std::ffi::OsStr;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::cli::Cli;
use super::inspect::Image;
use super::plan::Plan;
use super::say::{quote, say};
use super::target::look;
use super::{NOT_EXECUTABLE, NOT_FOUND};

/// Says why the program did not start, and gives the exit status.
pub fn refused(error: &Error, cli: &Cli, plan: &Plan) -> i32 {
    let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    let command = &cli.command[0];
    let named = command.as_bytes().contains(&b'/');
    let detail = match error.kind() {
        ErrorKind::NotFound => missing(command, named, plan),
        ErrorKind::PermissionDenied if named => denied(Path::new(command), error, plan),
        ErrorKind::PermissionDenied => {
            format!("{error}: in PATH there is such a name, but no file of it that you may execute")
        }
        _ => error.to_string(),
    };
    say(&format!("cannot run {}: {detail}", quote(command)));
    if let Some(output) = &plan.output {
        output.undo();
    }
    status
}

fn missing(command: &OsStr, named: bool, plan: &Plan) -> String {
    match plan.missing_interpreter() {
        Some(path) => format!("its interpreter {path} was not found"),
        None if named => "not found: there is no such file".into(),
        None if Path::new(command).is_file() => {
            format!("command not found in PATH; for the file in this directory write ./{}", quote(command))
        }
        None => "command not found".into(),
    }
}

fn denied(file: &Path, error: &Error, plan: &Plan) -> String {
    let Ok(meta) = file.metadata() else {
        return format!("{error}: a directory on the way to it may not be entered");
    };
    if meta.is_dir() {
        return format!("{error}: it is a directory");
    }
    if let Some(interpreter) = plan.denied_interpreter() {
        return format!("{error}: its interpreter {interpreter} may not be executed");
    }
    let interpreter = match look(file.to_owned()).image {
        Ok(Image::Script(line)) => {
            let program = line.through_env().map(OsStr::from_bytes);
            quote(program.unwrap_or(OsStr::from_bytes(&line.interpreter)))
        }
        _ => "python3".into(),
    };
    if meta.permissions().mode() & 0o111 == 0 {
        return format!(
            "{error}: make it executable (chmod +x), or name what runs it, as in {interpreter} {}",
            quote(file)
        );
    }
    format!("{error}: it is executable, but not by this user or not on this file system (noexec)")
}
