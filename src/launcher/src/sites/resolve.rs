//! Frames of a record to places in programs. Depends on `object`, `perf_map`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::object::Object;
use super::perf_map::PerfMap;
use crate::report::callers::{Module, Stack, Stacks};
use crate::report::Process;

/// A place in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The function; never empty once resolved: `FILE+0xOFFSET`, or an address, if it has no name.
    pub function: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Is it a Python function?
    pub python: bool,
}

/// A frame, resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The file that the code lies in: path and build ID. `None` for code in no file.
    pub module: Option<(String, String)>,
    /// The return address: offset in that file, or address.
    pub offset: u64,
    /// The function, and those that it was inlined into.
    pub places: Vec<Place>,
}

/// What was found out so far.
#[derive(Default)]
pub struct Resolver {
    objects: HashMap<(String, String), Option<Object>>,
    known: HashMap<(String, String, u64), Vec<Place>>,
    maps: HashMap<(u32, u64), PerfMap>,
    /// Files that are of no use, and why.
    pub problems: BTreeMap<String, String>,
}

impl Resolver {
    /// The frames of a stack, the innermost first. Ends before the first that can't be a caller.
    pub fn stack(&mut self, process: &Process, stacks: &Stacks, stack: &Stack) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (i, &(module, offset)) in stack.frames.iter().enumerate() {
            let resolved = match module {
                Some(at) => self.in_file(stacks.modules.get(at), offset, i == 0),
                None => Some(self.in_no_file(process, offset)),
            };
            let Some(frame) = resolved else { break };
            frames.push(frame);
        }
        frames
    }

    /// `None`: no call returns there. That the innermost frame is one is known.
    fn in_file(&mut self, module: Option<&Module>, offset: u64, exact: bool) -> Option<Frame> {
        let unknown = Module::default();
        let module = module.unwrap_or(&unknown);
        let key = (module.path.clone(), module.build_id.clone());
        let problems = &mut self.problems;
        let object = self.objects.entry(key.clone()).or_insert_with(|| {
            let opened = Object::open(module);
            opened.map_err(|why| problems.insert(module.path.clone(), why)).ok()
        });
        let address = object.as_ref().and_then(|o| o.address(offset));
        let mut places = Vec::new();
        if let (Some(object), Some(address)) = (object, address) {
            if !exact && !object.is_return(address) {
                return None;
            }
            let known = (key.0.clone(), key.1.clone(), offset);
            // The call is before the address that it returns to.
            places =
                self.known.entry(known).or_insert_with(|| object.places(address.wrapping_sub(1))).clone();
        }
        for place in &mut places {
            if place.function.is_empty() {
                place.function = nameless(Some(&module.path), offset);
            }
        }
        if places.is_empty() {
            places.push(Place { function: nameless(Some(&module.path), offset), ..Place::default() });
        }
        Some(Frame { module: Some(key), offset, places })
    }

    /// Did an interpreter say of a process what code it made?
    pub fn has_map(&mut self, process: &Process) -> bool {
        !self.map(process).is_empty()
    }

    fn map(&mut self, process: &Process) -> &PerfMap {
        self.maps.entry((process.pid, process.started_ns)).or_insert_with(|| {
            let beside = process.path.parent().unwrap_or(Path::new("."));
            PerfMap::of(process.pid, process.started_ns, &[beside, Path::new("/tmp")])
        })
    }

    fn in_no_file(&mut self, process: &Process, address: u64) -> Frame {
        let place = self.map(process).place(address.wrapping_sub(1));
        let place = place.unwrap_or_else(|| Place { function: nameless(None, address), ..Place::default() });
        Frame { module: None, offset: address, places: vec![place] }
    }
}

/// What a place is called that has no name: by its file and the offset in it, or by its address.
pub fn nameless(path: Option<&str>, offset: u64) -> String {
    let Some(path) = path else { return format!("{offset:#x}") };
    let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("?");
    format!("{name}+{offset:#x}")
}
