//! What the fuzz target `record_reader` does with its input; the tests of the record call it as well.

/// More rows than a record of today has.
const MANY: usize = 1000;

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
            for site in s.sites.iter().take(MANY) {
                for frame in s.sites.stack(&site) {
                    assert!(frame.offset < 1 << 48);
                    let module = frame.module.and_then(|m| s.sites.module(m)).unwrap_or_default();
                    assert!(module.path.whole >= module.path.bytes.len() && module.build_id.len() <= 23);
                }
            }
            assert!(s.top.entries.iter().all(|t| t.error <= t.bytes));
        }
        Err(e) => assert!(!format!("{e} {e:?}").is_empty()),
    }
}
