//! `zi_alloc` and `zi_free`: memory for guests that have no allocator of their own.
//!
//! Blocks come from pages that the host grew for the purpose. A guest's own heap is left alone: its
//! allocator grows memory, too, and copes with pages that are not its own. What is where is kept on
//! the host's side, so a guest cannot damage it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a page of WebAssembly memory.
const PAGE_BYTES: u64 = 65_536;
/// Every block starts at a multiple of this.
const ALIGNMENT: u64 = 16;

/// Which parts of the grown pages are in use.
#[derive(Default)]
pub(crate) struct Heap {
    used: HashMap<u64, u64>,
    free_by_start: BTreeMap<u64, u64>,
    free_by_size: BTreeSet<(u64, u64)>,
}

/// Whether a block could be found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    At(u64),
    /// This many pages have to be grown first.
    Grow {
        pages: u64,
    },
}

impl Heap {
    pub(crate) fn used_count(&self) -> usize {
        self.used.len()
    }

    /// Finds a block of at least `size` bytes, the smallest that will do.
    pub(crate) fn allocate(&mut self, size: u32) -> Found {
        let size = u64::from(size).next_multiple_of(ALIGNMENT);
        let Some(&(length, start)) = self.free_by_size.range((size, 0)..).next() else {
            // One unit more, should the pages start at address 0, which stands for failure.
            return Found::Grow { pages: (size + ALIGNMENT).div_ceil(PAGE_BYTES) };
        };
        self.take_free(start, length);
        if length > size {
            self.put_free(start + size, length - size);
        }
        self.used.insert(start, size);
        Found::At(start)
    }

    /// Takes in pages that were grown.
    pub(crate) fn add_pages(&mut self, first: u64, pages: u64) {
        let (start, end) = (first * PAGE_BYTES, (first + pages) * PAGE_BYTES);
        let start = if start == 0 { ALIGNMENT } else { start };
        self.merge_free(start, end - start);
    }

    /// Gives a block back. False if it is not one.
    pub(crate) fn free(&mut self, start: u64) -> bool {
        match self.used.remove(&start) {
            Some(length) => {
                self.merge_free(start, length);
                true
            }
            None => false,
        }
    }

    /// Adds a free block, joined with its neighbours.
    fn merge_free(&mut self, mut start: u64, mut length: u64) {
        if let Some((&before, &its_length)) = self.free_by_start.range(..start).next_back()
            && before + its_length == start
        {
            self.take_free(before, its_length);
            (start, length) = (before, length + its_length);
        }
        if let Some(&its_length) = self.free_by_start.get(&(start + length)) {
            self.take_free(start + length, its_length);
            length += its_length;
        }
        self.put_free(start, length);
    }

    fn put_free(&mut self, start: u64, length: u64) {
        self.free_by_start.insert(start, length);
        self.free_by_size.insert((length, start));
    }

    fn take_free(&mut self, start: u64, length: u64) {
        self.free_by_start.remove(&start);
        self.free_by_size.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(heap: &mut Heap, size: u32) -> u64 {
        match heap.allocate(size) {
            Found::At(start) => start,
            Found::Grow { pages } => panic!("it wants {pages} pages"),
        }
    }

    #[test]
    fn an_empty_heap_asks_for_pages() {
        let mut heap = Heap::default();
        assert_eq!(heap.allocate(1), Found::Grow { pages: 1 });
        assert_eq!(heap.allocate(65_536), Found::Grow { pages: 2 });
        assert_eq!(heap.allocate(u32::MAX), Found::Grow { pages: 65_537 });
    }

    #[test]
    fn blocks_are_aligned_distinct_and_never_at_zero() {
        let mut heap = Heap::default();
        heap.add_pages(0, 1);
        let blocks: Vec<u64> = (1..100).map(|size| allocate(&mut heap, size)).collect();
        assert!(blocks.iter().all(|start| *start > 0 && start % 16 == 0));
        let mut ends: Vec<(u64, u64)> =
            blocks.iter().zip(1u64..).map(|(start, size)| (*start, start + size)).collect();
        ends.sort_unstable();
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn what_is_freed_in_any_order_becomes_one_block_again() {
        let mut heap = Heap::default();
        heap.add_pages(3, 2);
        let blocks: Vec<u64> = (0..64).map(|_| allocate(&mut heap, 1000)).collect();
        for index in (0..64).step_by(2).chain((1..64).step_by(2).rev()) {
            assert!(heap.free(blocks[index]));
        }
        assert_eq!(heap.free_by_start.len(), 1);
        assert_eq!(allocate(&mut heap, 2 * 65_536), 3 * 65_536);
    }

    #[test]
    fn only_blocks_can_be_freed_and_only_once() {
        let mut heap = Heap::default();
        heap.add_pages(1, 1);
        let block = allocate(&mut heap, 10);
        assert!(!heap.free(block + 16));
        assert!(!heap.free(0));
        assert!(heap.free(block));
        assert!(!heap.free(block));
    }
}
