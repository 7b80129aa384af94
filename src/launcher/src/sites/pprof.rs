//! The profile as pprof has it: gzipped protobuf, for `go tool pprof`, Pyroscope, Parca, speedscope. Depends on `profile`.
//!
//! The messages are written after proto/profile.proto of github.com/google/pprof; fields that are not used are left out.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use flate2::{write::GzEncoder, Compression};
use prost::Message;

use super::profile::Profile;
use super::resolve::{Frame, Place};

/// The message of the same name in profile.proto; so are the others.
#[allow(missing_docs)] // as in profile.proto; strings are positions in the string table
pub mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "8")]
        pub has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// Files lie so far apart in the profile's address space, longer than any, so that an address tells its file.
const APART: u64 = 1 << 48;

/// Writes `profile`; `started_ns` is when it began, nanoseconds since 1970.
///
/// # Errors
/// Those of `out`.
pub fn render_pprof(out: &mut dyn Write, profile: &Profile, started_ns: u64) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&build(profile, started_ns).encode_to_vec())?;
    gzip.finish().map(|_| ())
}

/// Numbers for things: the first is 1, or 0 for strings.
struct Numbers<T> {
    all: HashMap<T, u64>,
    first: u64,
}

impl<T: Hash + Eq + Clone> Numbers<T> {
    fn new(first: u64) -> Self {
        Numbers { all: HashMap::new(), first }
    }

    /// The number of a thing, and whether it is new.
    fn of(&mut self, thing: &T) -> (u64, bool) {
        match self.all.get(thing) {
            Some(number) => (*number, false),
            None => {
                let number = self.all.len() as u64 + self.first;
                self.all.insert(thing.clone(), number);
                (number, true)
            }
        }
    }
}

struct Builder {
    profile: proto::Profile,
    strings: Numbers<String>,
    mappings: Numbers<(String, String)>,
    locations: Numbers<Frame>,
    functions: Numbers<(String, Option<String>)>,
}

fn build(profile: &Profile, started_ns: u64) -> proto::Profile {
    let mut b = Builder {
        profile: proto::Profile::default(),
        strings: Numbers::new(0),
        mappings: Numbers::new(1),
        locations: Numbers::new(1),
        functions: Numbers::new(1),
    };
    b.string("");
    // The names of Go's heap profile, which every reader knows.
    let [calls, bytes] = [("alloc_objects", "count"), ("alloc_space", "bytes")]
        .map(|(kind, unit)| proto::ValueType { r#type: b.string(kind), unit: b.string(unit) });
    b.profile.sample_type = vec![calls, bytes];
    b.profile.default_sample_type = bytes.r#type;
    b.profile.time_nanos = number(started_ns);
    b.profile.period_type = Some(calls);
    b.profile.period = number(profile.every.map_or(1, |(least, _)| least));
    let comment =
        format!("large callocs, {} sampled, by fastcalloc {}", profile.samples, env!("CARGO_PKG_VERSION"));
    b.profile.comment = vec![b.string(&comment)];
    let key = b.string("program");
    for (program, frames, sum) in &profile.stacks {
        let location_id = frames.iter().map(|frame| b.location(frame)).collect();
        let label = vec![proto::Label { key, str: b.string(program) }];
        b.profile.sample.push(proto::Sample {
            location_id,
            value: vec![number(sum.count), number(sum.bytes)],
            label,
        });
    }
    if profile.lost.count != 0 {
        let place = Place { function: "(not kept)".into(), ..Place::default() };
        let location_id = vec![b.location(&Frame { module: None, offset: 0, places: vec![place] })];
        let value = vec![number(profile.lost.count), number(profile.lost.bytes)];
        b.profile.sample.push(proto::Sample { location_id, value, label: Vec::new() });
    }
    b.profile
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        let (at, new) = self.strings.of(&text.to_owned());
        if new {
            self.profile.string_table.push(text.to_owned());
        }
        number(at)
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        let (id, new) = self.locations.of(frame);
        if !new {
            return id;
        }
        let (mapping_id, address) = match &frame.module {
            Some(module) => {
                let id = self.mapping(module);
                (id, id.saturating_mul(APART).saturating_add(frame.offset))
            }
            None => (0, frame.offset),
        };
        let line = frame.places.iter().map(|place| self.line(place)).collect();
        self.profile.location.push(proto::Location { id, mapping_id, address, line });
        id
    }

    fn mapping(&mut self, module: &(String, String)) -> u64 {
        let (id, new) = self.mappings.of(module);
        if new {
            let (filename, build_id) = (self.string(&module.0), self.string(&module.1));
            let memory_start = id.saturating_mul(APART);
            self.profile.mapping.push(proto::Mapping {
                id,
                memory_start,
                memory_limit: memory_start.saturating_add(APART),
                filename,
                build_id,
                // What could be looked up was: readers need not try.
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            });
        }
        id
    }

    fn line(&mut self, place: &Place) -> proto::Line {
        let (function_id, new) = self.functions.of(&(place.function.clone(), place.file.clone()));
        if new {
            let name = self.string(&place.function);
            let filename = self.string(place.file.as_deref().unwrap_or(""));
            self.profile.function.push(proto::Function {
                id: function_id,
                name,
                system_name: name,
                filename,
            });
        }
        proto::Line { function_id, line: place.line.map_or(0, i64::from) }
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
