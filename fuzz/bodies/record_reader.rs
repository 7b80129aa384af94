//! What the fuzz target `record_reader` does with its input; the tests of the record call it as well.

/// Reads `bytes` as a record and uses all of what comes out.
pub fn run(bytes: &[u8]) {
    match fastcalloc_record::parse(bytes) {
        Ok(s) => {
            let mut twice = s.counts.clone();
            twice.merge(&s.counts);
            let totals = twice.kinds.iter().map(|k| k.total().count);
            assert!(totals.zip(&s.counts.kinds).all(|(two, one)| two >= one.total().count));
            for text in [s.host, s.library, s.settings, s.exe, s.argv] {
                assert!(text.whole >= text.bytes.len() && text.bytes.len() <= bytes.len());
            }
            assert!(s.top.entries.iter().all(|t| t.error <= t.bytes));
        }
        Err(e) => assert!(!format!("{e} {e:?}").is_empty()),
    }
}
