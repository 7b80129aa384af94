//! `scripts/fastcalloc-run`: it builds when the sources are newer than what it has, and at no other time. With a cargo that only
//! says that it ran.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fastcalloc-run");
/// Makes a launcher that says what the sources were.
const CARGO: &str = "#!/bin/sh
echo built $* >>calls
[ ! -e broken ] || exit 101
mkdir -p target/release
printf '#!/bin/sh\\necho %s \"$@\"\\n' \"$(cat src/main)\" >target/release/fastcalloc-run
chmod 755 target/release/fastcalloc-run
echo >target/release/libfastcalloc.so
";

struct Checkout(TempDir);

impl Checkout {
    fn new() -> Checkout {
        let dir = TempDir::new().unwrap();
        for sub in ["scripts", "src", "bin", "tools"] {
            fs::create_dir(dir.path().join(sub)).unwrap();
        }
        // Not all that is beside them: a cargo may be.
        for tool in ["sh", "cat", "chmod", "dirname", "find", "head", "mkdir", "mv", "readlink", "rm"] {
            let places = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(tool));
            let place =
                places.iter().find(|p| p.exists()).unwrap_or_else(|| panic!("this test needs {tool}"));
            std::os::unix::fs::symlink(place, dir.path().join("tools").join(tool)).unwrap();
        }
        fs::copy(SCRIPT, dir.path().join("scripts/fastcalloc-run")).unwrap();
        let checkout = Checkout(dir);
        for (name, text) in
            [("Cargo.toml", ""), ("Cargo.lock", ""), ("src/main", "one"), ("bin/cargo", CARGO)]
        {
            checkout.write(name, text);
        }
        fs::set_permissions(checkout.path("bin/cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        checkout
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        // The clock of files ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, bin: &Path) -> Output {
        let mut sh = Command::new("sh");
        sh.arg(self.path("scripts/fastcalloc-run"))
            .arg("x y")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_HOME");
        sh.env("HOME", self.0.path())
            .env("PATH", format!("{}:{}", bin.display(), self.path("tools").display()))
            .output()
            .unwrap()
    }

    /// What a run says, and how many builds there have been.
    fn says(&self, stdout: &str, stderr: &str, builds: usize) {
        self.says_with(&self.path("bin"), stdout, stderr, builds);
    }

    fn says_with(&self, bin: &Path, stdout: &str, stderr: &str, builds: usize) {
        let out = self.run(bin);
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let run = self.path("target/release/fastcalloc-run").canonicalize().unwrap();
        let stderr = stderr.replace("RUN", &run.display().to_string());
        assert_eq!(
            (text(&out.stdout), text(&out.stderr), calls.lines().count()),
            (stdout.into(), stderr, builds)
        );
    }
}

#[test]
fn builds_when_the_sources_are_newer() {
    let checkout = Checkout::new();
    checkout.says("one x y\n", "fastcalloc-run: first use, building\n", 1);
    checkout.says("one x y\n", "", 1);
    checkout.write("src/main", "two");
    checkout.says("two x y\n", "", 2);
    checkout.says("two x y\n", "", 2);
    checkout.write("Cargo.lock", "x");
    checkout.write("src/more", "x");
    checkout.says("two x y\n", "", 3);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::remove_file(checkout.path("src/more")).unwrap();
    checkout.says("two x y\n", "", 4);
    // What somebody built by hand is looked at once.
    fs::remove_file(checkout.path("target/release/.fastcalloc-run")).unwrap();
    checkout.says("two x y\n", "", 5);
    checkout.says("two x y\n", "", 5);
}

#[test]
fn runs_what_is_there_without_cargo() {
    let checkout = Checkout::new();
    let none = checkout.path("none");
    let first = checkout.run(&none);
    let said = String::from_utf8(first.stderr).unwrap();
    assert!(first.status.code() == Some(125) && said.contains("needs cargo"), "{said}");
    checkout.says("one x y\n", "fastcalloc-run: first use, building\n", 1);
    checkout.says_with(&none, "one x y\n", "", 1);
    checkout.write("src/main", "two");
    let older =
        "fastcalloc-run: RUN is older than its sources, and cargo, which would build it anew, is missing\n";
    checkout.says_with(&none, "one x y\n", older, 1);
    checkout.says("two x y\n", "", 2);
}

#[test]
fn a_build_that_fails_is_no_run_of_what_was_before() {
    let checkout = Checkout::new();
    checkout.says("one x y\n", "fastcalloc-run: first use, building\n", 1);
    checkout.write("src/main", "two");
    checkout.write("broken", "");
    let out = checkout.run(&checkout.path("bin"));
    assert_eq!((out.status.code(), out.stdout.len()), (Some(125), 0));
    assert!(String::from_utf8(out.stderr).unwrap().contains("the build failed"));
    fs::remove_file(checkout.path("broken")).unwrap();
    checkout.says("two x y\n", "", 3);
    assert_eq!(fs::read_dir(checkout.path("target/release")).unwrap().count(), 3, "nothing is left behind");
}
