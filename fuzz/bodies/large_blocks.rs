//! What the fuzz target `large_blocks` does with its input; the tests of the policy call it as well: a program's life as
//! a string of bytes, on a model of an operating system, every block checked for zero when it is handed out.

use fake::Fake;
use pal::{Pal, Range, ScanError};
use policy::options::Options;
use policy::request::HEADER;
use policy::{LargeAllocator, Moved};

struct Block {
    addr: usize,
    bytes: usize,
    spoiled: bool,
}

struct Life<'a> {
    large: &'a LargeAllocator<Fake>,
    input: std::slice::Iter<'a, u8>,
    blocks: Vec<Block>,
    retain: usize,
    peak: usize,
}

/// Lives the life that `bytes` spell.
pub fn run(bytes: &[u8]) {
    let mut input = bytes.iter();
    let page = 4096usize << (2 * (input.next().copied().unwrap_or(0) % 3));
    let retain = [0, 1 << 20, 64 << 20, usize::MAX / 4][input.next().map_or(2, |byte| usize::from(byte % 4))];
    let large = LargeAllocator::new(Fake::new(page));
    large.configure(&Options { threshold: 64 << 10, retain });
    Life { large: &large, input, blocks: Vec::new(), retain, peak: 0 }.live();
}

impl Life<'_> {
    fn byte(&mut self) -> Option<usize> {
        self.input.next().map(|byte| usize::from(*byte))
    }

    fn size(&mut self) -> Option<usize> {
        let (kind, fine) = (self.byte()?, self.byte()?);
        Some(((64 << 10) << (kind % 8)) + fine * 1021)
    }

    fn pick(&mut self) -> Option<usize> {
        let byte = self.byte()?;
        (!self.blocks.is_empty()).then(|| byte % self.blocks.len())
    }

    fn live(mut self) {
        while self.step().is_some() {
            let live: usize = self.blocks.iter().map(|block| block.bytes).sum();
            self.peak = self.peak.max(live);
            assert!(self.large.live() >= live, "the books forget a block");
        }
        for block in std::mem::take(&mut self.blocks) {
            self.free(block);
        }
        assert_eq!(self.large.live(), 0, "the books keep a block that is gone");
        let fake = self.large.pal();
        fake.refuse_unmaps(false);
        self.large.trim();
    }

    fn step(&mut self) -> Option<()> {
        let (op, fake) = (self.byte()?, self.large.pal());
        match op % 20 {
            0..=5 => self.calloc()?,
            6..=9 => {
                let at = self.pick();
                if let Some(block) = at.map(|at| self.blocks.swap_remove(at)) {
                    self.free(block);
                }
            }
            10..=12 => self.write()?,
            13 => self.realloc()?,
            14 => self.spoil()?,
            15 => {
                if let Some(at) = self.pick() {
                    let block = &self.blocks[at];
                    fake.swap_out(whole_pages(fake, block.addr, block.bytes));
                }
            }
            16 => fake.run_as(self.byte()? << 12),
            17 => match self.byte()? % 8 {
                0 => fake.refuse_maps(self.byte()? % 4),
                1 => fake.refuse_unmaps(self.byte()? % 2 == 0),
                2 => fake.refuse_purges(self.byte()? % 2 == 0),
                3 => fake
                    .no_scan([None, Some(ScanError::Failed), Some(ScanError::Unsupported)][self.byte()? % 3]),
                4 => fake.no_intact(self.byte()? % 2 == 0),
                5 => fake.limit([None, Some(64 << 20)][self.byte()? % 2]),
                6 => fake.sleep(self.byte()? as u32),
                _ => fake.fork(),
            },
            18 => {
                self.large.trim();
            }
            _ => self.bypass()?,
        }
        Some(())
    }

    fn calloc(&mut self) -> Option<()> {
        let bytes = self.size()?;
        if let Some(given) = self.large.calloc(bytes) {
            let fake = self.large.pal();
            // SAFETY: the block is ours now.
            let usable = unsafe { self.large.usable_size(given.addr) }.expect("just given");
            assert!(usable >= bytes && given.addr % 4096 == HEADER);
            // SAFETY: as above.
            let zero = unsafe { fake.is_zero(Range { start: given.addr, len: usable }) };
            assert!(zero, "calloc gave a byte that is not zero");
            self.blocks.push(Block { addr: given.addr, bytes: usable, spoiled: false });
        }
        Some(())
    }

    fn free(&mut self, block: Block) {
        // SAFETY: the block is ours, once.
        assert!(unsafe { self.large.free(block.addr) }, "a block of ours was not recognised");
        // SAFETY: the address is one that we held.
        assert!(!unsafe { self.large.free(block.addr) }, "a block was taken back twice");
        let retained = self.large.retained();
        assert!(retained <= self.retain, "{retained} bytes retained, {} allowed", self.retain);
    }

    fn write(&mut self) -> Option<()> {
        let (at, place, amount, value) = (self.pick()?, self.byte()?, self.byte()?, self.byte()?);
        let block = &self.blocks[at];
        if !block.spoiled {
            let start = block.addr + block.bytes / 256 * place;
            let len = (block.bytes / 256 * (amount + 1)).min(block.addr + block.bytes - start);
            self.large.pal().write(Range { start, len }, value % 4 != 0);
        }
        Some(())
    }

    fn realloc(&mut self) -> Option<()> {
        let (at, bytes) = (self.pick()?, self.size()?);
        let block = &mut self.blocks[at];
        if block.spoiled {
            return Some(());
        }
        // SAFETY: the block is ours.
        match unsafe { self.large.realloc(block.addr, bytes, 64 << 10) } {
            Moved::Done(addr) => {
                block.addr = addr;
                // SAFETY: as above.
                block.bytes = unsafe { self.large.usable_size(addr) }.expect("just moved");
                assert!(block.bytes >= bytes);
            }
            // SAFETY: as above.
            Moved::Refused => assert!(unsafe { self.large.usable_size(block.addr) } == Some(block.bytes)),
            other => panic!("{other:?} for a large block of ours"),
        }
        Some(())
    }

    /// The program protects, locks, or advises a part, and leaves it so.
    fn spoil(&mut self) -> Option<()> {
        let (at, place) = (self.pick()?, self.byte()?);
        let fake = self.large.pal();
        let block = &mut self.blocks[at];
        let pages = whole_pages(fake, block.addr, block.bytes);
        let start = pages.start + (pages.len / 256 * place) / fake.page_size() * fake.page_size();
        fake.advise(Range { start, len: pages.start + pages.len - start }, 1 + (place % 2) as u32);
        block.spoiled = true;
        Some(())
    }

    /// Somebody frees a block past us, as glibc does: it unmaps what the header says.
    fn bypass(&mut self) -> Option<()> {
        let at = self.pick()?;
        let block = self.blocks.swap_remove(at);
        let (fake, chunk) = (self.large.pal(), block.addr - HEADER);
        // SAFETY: the header of a block of ours.
        let (before, size) = unsafe { (fake.load(chunk), fake.load(chunk + 8)) };
        assert_eq!((before, size & 7), (0, 6), "glibc would not know this block");
        // What another allocator puts there is not ours, though the table still knows the address.
        fake.occupy(Range { start: chunk, len: size & !7 });
        // SAFETY: a live address of that allocator.
        assert!(!unsafe { self.large.free(block.addr) }, "a block of another allocator was taken for ours");
        Some(())
    }
}

fn whole_pages(fake: &Fake, addr: usize, bytes: usize) -> Range {
    let start = addr / fake.page_size() * fake.page_size();
    Range { start, len: (addr + bytes).next_multiple_of(fake.page_size()) - start }
}
