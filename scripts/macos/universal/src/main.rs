//! `universal OUT IN...`: one Mach-O file for several machines, as Apple's `lipo -create` makes it. Signatures stay valid:
//! they are the slices' own. OUT is written as it is; `scripts/package` puts it in place.

fn universal(words: &[String]) -> Result<(), String> {
    let [out, slices @ ..] = words else { return Err("usage: universal OUT IN...".into()) };
    let mut writer = fat_macho::FatWriter::new();
    for path in slices {
        let bytes = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
        writer.add(bytes).map_err(|e| format!("{path}: {e}"))?;
    }
    writer.write_to_file(out).map_err(|e| format!("{out}: {e}"))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = universal(&words) {
        eprintln!("universal: {error}");
        std::process::exit(1);
    }
}
