//! `fastcalloc-run` as its users meet it: real programs, statuses and streams.

mod run_support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use run_support::{install, launch, launch_by, script, tools, Launch, RUN};

fn prog(args: &[&str]) -> Launch {
    let mut all = vec![tools().prog.as_os_str()];
    all.extend(args.iter().map(OsStr::new));
    launch(&all)
}

fn with(options: &[&str], program: &Path, args: &[&str]) -> Launch {
    let mut all: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    all.push(program.as_os_str());
    all.extend(args.iter().map(OsStr::new));
    launch(&all)
}

#[test]
fn statuses_pass_through_in_silence() {
    for code in [0, 1, 42, 125, 126, 127, 255] {
        assert_eq!(prog(&["exit", &code.to_string()]).run().silent(code), "");
        assert_eq!(with(&["-q"], &tools().prog, &["exit", &code.to_string()]).run().silent(code), "");
    }
}

#[test]
fn what_cannot_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plain");
    fs::write(&file, "x").unwrap();
    let orphan = script(dir.path(), "orphan", "#!/no/such/interpreter\n");
    for options in [&[][..], &["-q"], &["--stats"], &["--dry-run"]] {
        with(options, Path::new("no-such-program-anywhere"), &[]).run().one_line(127, &["not found"]);
        with(options, &dir.path().join("nothing"), &[]).run().one_line(127, &["not found"]);
        with(options, &file, &[]).run().one_line(126, &["ermission denied"]);
        with(options, dir.path(), &[]).run().one_line(126, &["ermission denied"]);
    }
    with(&[], &dir.path().join("nothing"), &[]).run().one_line(127, &["there is no such file"]);
    with(&[], &file, &[]).run().one_line(126, &["chmod +x", "python3 "]);
    with(&[], dir.path(), &[]).run().one_line(126, &["it is a directory"]);
    for (name, line) in [("job", "#!/opt/tool\n"), ("through", "#!/usr/bin/env tool\n")] {
        fs::write(dir.path().join(name), line).unwrap();
        let remedy = format!("as in {} ", line.trim_start_matches("#!").rsplit(' ').next().unwrap().trim());
        with(&[], &dir.path().join(name), &[]).run().one_line(126, &["chmod +x", &remedy]);
    }
    let closed = script(dir.path(), "closed", &format!("#!{}\n", file.display()));
    with(&[], &closed, &[]).run().one_line(126, &["its interpreter", "plain may not be executed"]);
    with(&[], &orphan, &[]).run().one_line(127, &["/no/such/interpreter"]);
    with(&[], Path::new(""), &[]).run().one_line(127, &["not found"]);
}

#[test]
fn a_file_of_this_directory_or_of_path() {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), "job.py", "#!/bin/sh\n");
    let mut here = launch(&["job.py"]);
    here.command.current_dir(dir.path());
    here.run().one_line(127, &["not found in PATH", "write ./job.py"]);
    fs::set_permissions(dir.path().join("job.py"), fs::Permissions::from_mode(0o644)).unwrap();
    launch(&["job.py"]).env("PATH", dir.path()).run().one_line(126, &["in PATH there is such a name"]);
}

/// A user without rights: what is closed is named, and where records can't be made nothing is run.
#[test]
fn what_another_user_may_not() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: it changes user");
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let (shim, run, closed) = (dir.path().join("shim.so"), dir.path().join("run"), dir.path().join("closed"));
    install(&tools().shim, &shim);
    install(Path::new(RUN), &run);
    fs::create_dir(&closed).unwrap();
    let job = script(&closed, "job", "#!/bin/sh\n");
    let own = script(dir.path(), "own", "#!/bin/sh\n");
    mode(dir.path(), 0o755);
    mode(&closed, 0o700);
    mode(&own, 0o700);
    let tried = |words: &[&OsStr]| {
        let mut launch = launch_by(&run, words).env("FASTCALLOC_LIB", &shim);
        std::os::unix::process::CommandExt::uid(&mut launch.command, 65534);
        mode(launch.tmp.path(), 0o777);
        launch.run()
    };
    tried(&[job.as_os_str()]).one_line(126, &["a directory on the way"]);
    tried(&[own.as_os_str()]).one_line(126, &["not by this user"]);
    for place in [dir.path().join("new"), closed.clone(), dir.path().to_owned(), closed.join("%p.rec")] {
        let named = if place.file_name() == Some(OsStr::new("%p.rec")) { &closed } else { &place };
        let words = [OsStr::new("-o"), place.as_os_str(), OsStr::new("true")];
        tried(&words).one_line(
            125,
            &[
                &format!("output directory {}: ", named.display()),
                "ermission denied",
                "choose another with -o DIR",
            ],
        );
    }
}

/// `fastcalloc-run -o sh script.sh`: the command is taken for the directory.
#[test]
fn a_forgotten_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("script.sh"), "exit 0\n").unwrap();
    let run = |output: &str| {
        let mut run = launch(&["-o", output, "./script.sh"]);
        run.command.current_dir(dir.path());
        run.run()
    };
    run("sh").one_line(125, &["sh is a program: write fastcalloc-run -o DIR sh ./script.sh (for", "-o ./sh"]);
    run("records").one_line(126, &["chmod +x"]);
    assert!(!dir.path().join("sh").exists() && !dir.path().join("records").exists());
    fs::create_dir(dir.path().join("there")).unwrap();
    run("there").one_line(126, &["chmod +x"]);
    assert!(dir.path().join("there").exists());
    for (args, corrected) in [
        (&["-o", "ls", "-la"][..], "-o takes the directory for the records, and ls is a program: write fastcalloc-run -o DIR ls -la ("),
        (&["--retain", "1M", "-q", "--output", "true"], "write fastcalloc-run --retain 1M -q --output DIR true ("),
        (&["-o", "/bin/ls"], "write fastcalloc-run -o DIR /bin/ls"),
        (&["-o", "records"], "there is no COMMAND: -o took records for the directory"),
    ] {
        launch(args).run().one_line(125, &[corrected]);
    }
    // What is meant for a directory, or stands in the command, is left alone.
    fs::create_dir(dir.path().join("true")).unwrap();
    for args in [
        &["-o", "true", "/bin/true"][..],
        &["-o", "./ls", "/bin/true"],
        &["/bin/echo", "-o", "ls"],
        &["--", "/bin/true"],
    ] {
        let mut run = launch(args);
        run.command.current_dir(dir.path());
        assert!(run.run().status.success(), "{args:?}");
    }
}

#[test]
fn mistakes_on_the_command_line_are_125() {
    for (options, words) in [
        (&["--threshold", "lots"][..], &["--threshold", "128K"][..]),
        (&["--threshold", "-5"], &["'-5'", "--threshold", "as in 128K"]),
        (&["--retain", "-1M"], &["'-1M'", "--retain", "as in 128K"]),
        (&["-o", ""], &["-o ''", "-o records"]),
        (&["--retain=64Q"], &["--retain", "64Q"]),
        (&["--bogus"], &["--bogus"]),
        (&["-q", "-v"], &["cannot be used"]),
        (&["-o", "/dev/null/x/%t"], &["after %"]),
    ] {
        let outcome = with(options, &tools().prog, &["exit", "0"]).run();
        assert_eq!((outcome.status.code(), outcome.stdout.len()), (Some(125), 0), "{options:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{}", outcome.stderr);
        }
    }
    assert_eq!(launch::<&str>(&[]).run().status.code(), Some(125));
    prog(&["exit", "0"])
        .env("FASTCALLOC_RETAIN", "some")
        .run()
        .one_line(125, &["FASTCALLOC_RETAIN=some", "128K"]);
    with(&["-o", "/dev/null"], &tools().prog, &[]).run().one_line(125, &["/dev/null"]);
}

#[test]
fn help_and_version_are_asked_for() {
    for option in ["--help", "-h", "--version"] {
        let outcome = launch(&[option]).run();
        assert!(outcome.status.success() && outcome.stderr.is_empty() && !outcome.stdout.is_empty());
    }
}

#[test]
fn options_reach_the_library_as_variables() {
    let seen = |options: &[&str], name: &str| with(options, &tools().prog, &["env", name]).run().silent(0);
    assert_eq!(seen(&["--threshold", "1M"], "FASTCALLOC_THRESHOLD"), "1048576\n");
    assert_eq!(seen(&["--retain", "0"], "FASTCALLOC_RETAIN"), "0\n");
    assert_eq!(seen(&["--off"], "FASTCALLOC_DISABLE"), "1\n");
    assert_eq!(seen(&[], "FASTCALLOC_DISABLE"), "(unset)\n");
    assert_eq!(seen(&[], "FASTCALLOC_LOG"), "(unset)\n");
    let both = with(&["--threshold=2G"], &tools().prog, &["env", "FASTCALLOC_THRESHOLD"]);
    assert_eq!(both.env("FASTCALLOC_THRESHOLD", "1M").run().silent(0), "2147483648\n");
    let own = prog(&["env", "FASTCALLOC_THRESHOLD"]).env("FASTCALLOC_THRESHOLD", "256k");
    assert_eq!(own.run().silent(0), "262144\n");
}

#[test]
fn an_existing_preload_is_kept() {
    let shim = tools().shim.to_str().unwrap();
    let preload = |old: &str| prog(&["env", "LD_PRELOAD"]).env("LD_PRELOAD", old).run().silent(0);
    assert_eq!(preload("libm.so.6"), format!("{shim}:libm.so.6\n"));
    assert_eq!(preload(&format!("libm.so.6:{shim}")), format!("{shim}:libm.so.6\n"));
    // One launcher under another: still once.
    let inner = with(&[RUN], &tools().prog, &["env", "LD_PRELOAD"]);
    assert_eq!(inner.run().silent(0), format!("{shim}\n"));
}

#[test]
fn library_paths_that_cannot_be_preloaded() {
    let dir = tempfile::tempdir().unwrap();
    for (name, word) in [("a b", "space"), ("a:b", "colon"), ("a$b", "dollar")] {
        let place = dir.path().join(name);
        fs::create_dir(&place).unwrap();
        let copy = place.join("x.so");
        fs::copy(&tools().shim, &copy).unwrap();
        prog(&["exit", "0"]).env("FASTCALLOC_LIB", copy).run().one_line(125, &[word, "FASTCALLOC_LIB"]);
    }
    prog(&["exit", "0"])
        .env("FASTCALLOC_LIB", "/no/lib.so")
        .run()
        .one_line(125, &["/no/lib.so", "there is no such file"]);
}

#[test]
fn the_library_is_found_beside_the_launcher_and_in_lib() {
    let root = tempfile::tempdir().unwrap();
    let (bin, lib) = (root.path().join("bin"), root.path().join("lib"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    let copy = bin.join("fastcalloc-run");
    install(Path::new(RUN), &copy);
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&copy, &link).unwrap();
    let preload = || {
        let mut run =
            launch_by(&link, &[tools().prog.as_os_str(), OsStr::new("env"), OsStr::new("LD_PRELOAD")]);
        run.command.env_remove("FASTCALLOC_LIB");
        run.run()
    };
    preload().one_line(125, &["bin/libfastcalloc.so", "lib/libfastcalloc.so", "FASTCALLOC_LIB"]);
    let real = root.path().canonicalize().unwrap();
    fs::copy(&tools().shim, lib.join("libfastcalloc.so")).unwrap();
    assert_eq!(preload().silent(0), format!("{}/lib/libfastcalloc.so\n", real.display()));
    fs::copy(&tools().shim, bin.join("libfastcalloc.so")).unwrap();
    assert_eq!(preload().silent(0), format!("{}/bin/libfastcalloc.so\n", real.display()));
}

#[test]
fn input_and_arguments_pass_through() {
    let input: Vec<u8> = (0..1_000_000_u32).map(|n| (n * 7 / 5) as u8).collect();
    let outcome = prog(&["cat"]).feed(&input);
    assert!(outcome.stdout == input && outcome.stderr.is_empty());

    let odd = OsStr::from_bytes(b"\xff\xfe\n");
    let words = [
        OsStr::new("--"),
        tools().prog.as_os_str(),
        OsStr::new("args"),
        odd,
        OsStr::new("--"),
        OsStr::new("-v"),
    ];
    assert_eq!(launch(&words).run().stdout, b"\xff\xfe\n\0--\0-v\0");
    let outcome = launch(&[odd]).run();
    outcome.one_line(127, &["\\xff\\xfe\\n"]);
}

#[test]
fn a_script_without_an_interpreter_line_gets_all_its_words() {
    // execvp copies them to its stack, to put a shell in front.
    let dir = tempfile::tempdir().unwrap();
    let script = script(dir.path(), "plain", "echo $#\n");
    let words = vec!["word"; 60_000];
    let outcome = with(&["-q", "-o", dir.path().join("r").to_str().unwrap()], &script, &words).run();
    assert_eq!((outcome.status.code(), outcome.stdout.as_slice()), (Some(0), &b"60000\n"[..]));
}

#[test]
fn a_command_may_look_like_an_option() {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), "-odd", "#!/bin/sh\nexit 9\n");
    let path = std::env::join_paths([dir.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    launch(&["--", "-odd"]).env("PATH", path).run().silent(9);
}

#[test]
fn a_library_that_never_came_alive_is_one_line() {
    with(&[], &tools().fixed, &["exit", "3"]).run().one_line(3, &["never came alive", "statically linked"]);
    with(&["--stats"], &tools().fixed, &["exit", "3"])
        .run()
        .one_line(3, &["never came alive", "statically linked"]);
    with(&["-q"], &tools().fixed, &["exit", "3"]).run().silent(3);
    with(&["--off"], &tools().fixed, &["exit", "3"]).run().silent(3);
    prog(&["exit", "3"]).env("FAKE_DEAD", "1").run().one_line(3, &["never came alive", "dropped"]);
    let dir = tempfile::tempdir().unwrap();
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    fs::create_dir(&old).unwrap();
    for place in [&new, &old] {
        with(&["-o", place.to_str().unwrap()], &tools().fixed, &["exit", "3"]).run().one_line(
            3,
            &["never came alive in this run, and nothing was recorded: ", "; link it dynamically"],
        );
    }
    assert!(!new.exists() && old.exists(), "only what was made for this run goes");
    let died = with(&[], &tools().fixed, &["signal", "15"]).run();
    died.died(15);
    assert_eq!(died.stderr.lines().count(), 1);
}

#[test]
fn the_reason_is_found_through_scripts() {
    let dir = tempfile::tempdir().unwrap();
    let fixed = tools().fixed.display();
    let direct = script(dir.path(), "direct", &format!("#!{fixed} exit\n"));
    with(&[], &direct, &[]).run().one_line(0, &["direct runs under", "fixed, which is statically"]);
    // A dynamic `env` comes alive itself, so that nothing is to be said.
    let through = script(dir.path(), "through", &format!("#!/usr/bin/env -S {fixed} exit\n"));
    with(&[], &through, &[]).run().silent(0);
    let broken = dir.path().join("lib.so");
    fs::write(&broken, "not a library").unwrap();
    let outcome = prog(&["exit", "0"]).env("FASTCALLOC_LIB", &broken).run();
    assert!(
        outcome.stderr.lines().last().unwrap().ends_with("lib.so is not an ELF library"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn set_user_id_is_named() {
    let dir = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        panic!("run this test as root: it makes a set-user-ID program of another user");
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = dir.path().join("suid");
    install(&tools().prog, &copy);
    std::os::unix::fs::chown(&copy, Some(65534), None).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    with(&[], &copy, &["exit", "5"]).run().one_line(5, &["set-user-ID", "LD_PRELOAD"]);
}

#[test]
fn a_program_that_needs_asan_first_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("a.c"), dir.path().join("a"));
    fs::write(&source, "int main(void) { return 6; }\n").unwrap();
    let done =
        Command::new("gcc").arg("-fsanitize=address").arg(&source).arg("-o").arg(&out).status().unwrap();
    assert!(done.success(), "install libasan");
    with(&[], &out, &[]).run().one_line(6, &["AddressSanitizer"]);
}

#[test]
fn dry_run_runs_nothing() {
    let outcome =
        with(&["--dry-run", "--threshold=1M", "-o", "/no/such/dir"], &tools().fixed, &["exit", "3"]).run();
    assert_eq!((outcome.status.code(), outcome.stdout.len()), (Some(0), 0));
    for part in
        ["would run", "LD_PRELOAD=", "FASTCALLOC_THRESHOLD=1048576", "/no/such/dir/%e.%p.fcrec", "statically"]
    {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    assert!(!Path::new("/no/such/dir").exists());
}

#[test]
fn no_temporary_directory_is_no_reason_not_to_run() {
    // /tmp takes its place.
    let run = |options: &[&str]| with(options, &tools().prog, &["exit", "4"]).env("TMPDIR", "/proc/no/dir");
    run(&[]).run().silent(4);
    assert!(run(&["-v"]).run().stderr.contains("came alive 1 time\n"));
    run(&[]).env("TMPDIR", "").run().silent(4);
}

#[test]
fn a_deleted_directory_is_no_reason_not_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("gone");
    fs::create_dir(&inside).unwrap();
    let line =
        format!("cd {0} && rmdir {0} && exec {RUN} {1} exit 8", inside.display(), tools().prog.display());
    launch_by(Path::new("sh"), &["-c", &line]).run().silent(8);
}
