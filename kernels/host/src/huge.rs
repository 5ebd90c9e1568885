//! Memory in huge pages.

use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator that gives large blocks huge pages. A program that trains makes it its global allocator.
///
/// Activations are hundreds of megabytes that every step sweeps several times. In pages of 4 KiB most of such a sweep is
/// address translation, dearer still in a virtual machine; Linux gives huge pages to those who ask (`madvise` is its
/// default setting), and most programs do not ask. Asking for a block of the system's allocator is not enough: threads
/// get their memory there in steps whose ends do not fall on huge pages.
///
/// Blocks of 2 MiB or more are mappings of their own, cut to huge pages. Freed ones are kept for blocks of the same size,
/// since fresh pages cost more than the messages that fill them, up to [`HugePages::MOST_KEPT`] bytes. All other blocks
/// are the system allocator's; those of a page or more start at a line of the cache: a vector that lies in two lines costs
/// two accesses, and a line that two threads write goes to and fro between their caches.
pub struct HugePages;

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Bytes of the smallest block that starts at one.
const PAGE: usize = 4096;

/// The layout that the system allocator is asked for.
fn lined(layout: Layout) -> Layout {
    let aligned = if layout.size() >= PAGE { layout.align_to(LINE).ok() } else { None };
    aligned.unwrap_or(layout)
}

impl HugePages {
    /// Bytes of freed blocks that are kept.
    pub const MOST_KEPT: usize = 256 << 20;
}

// SAFETY: what is given out is a mapping of its own, or the system allocator's; which of them is a function of the
// layout alone.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match mapped::size(layout) {
            Some(size) => mapped::take(size).unwrap_or_else(|| mapped::map(size)),
            // SAFETY: by the contract of this function.
            None => unsafe { System.alloc(lined(layout)) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match mapped::size(layout) {
            Some(size) => match mapped::take(size) {
                Some(kept) => {
                    // SAFETY: the block is this large.
                    unsafe { kept.write_bytes(0, layout.size()) };
                    kept
                }
                // Fresh pages are zero.
                None => mapped::map(size),
            },
            // SAFETY: by the contract of this function.
            None => unsafe { System.alloc_zeroed(lined(layout)) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the contract of this function the size does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (mapped::size(layout), mapped::size(wanted)) {
            (None, None) if lined(layout).align() == lined(wanted).align() => {
                // SAFETY: by the contract of this function.
                unsafe { System.realloc(block, lined(layout), size) }
            }
            (Some(old), Some(new)) if old == new => block,
            _ => {
                // SAFETY: both blocks are as large as is copied; the old one is given up for the new one.
                unsafe {
                    let moved = self.alloc(wanted);
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(block, size.min(layout.size()));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match mapped::size(layout) {
            // SAFETY: a block with this layout is a mapping of this size.
            Some(size) => unsafe { mapped::give(block, size) },
            // SAFETY: by the contract of this function.
            None => unsafe { System.dealloc(block, lined(layout)) },
        }
    }
}

#[cfg(target_os = "linux")]
mod mapped {
    use super::HugePages;
    use std::alloc::Layout;
    use std::sync::{Mutex, PoisonError};

    /// Bytes of a huge page.
    const HUGE: usize = 2 << 20;

    /// Freed blocks: address and size. It must not allocate, so it has a fixed number of places.
    static KEPT: Mutex<Kept> = Mutex::new(Kept { blocks: [(0, 0); 128], bytes: 0 });

    struct Kept {
        blocks: [(usize, usize); 128],
        bytes: usize,
    }

    /// Size of the mapping for a layout, if it gets one.
    pub fn size(layout: Layout) -> Option<usize> {
        let fits = layout.size() >= HUGE && layout.align() <= HUGE;
        if fits { layout.size().checked_next_multiple_of(HUGE) } else { None }
    }

    /// A kept block of that size.
    pub fn take(size: usize) -> Option<*mut u8> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.blocks.iter().position(|&(_, kept)| kept == size)?;
        let (address, _) = std::mem::take(&mut kept.blocks[place]);
        kept.bytes -= size;
        Some(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Keeps a block, or unmaps it.
    ///
    /// # Safety
    /// The block came from here with that size, and nobody uses it any more.
    pub unsafe fn give(block: *mut u8, size: usize) {
        {
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            let place = kept.blocks.iter().position(|&(_, size)| size == 0);
            if let Some(place) = place.filter(|_| kept.bytes + size <= HugePages::MOST_KEPT) {
                kept.blocks[place] = (block.expose_provenance(), size);
                kept.bytes += size;
                return;
            }
        }
        // SAFETY: by the contract of this function.
        unsafe { libc::munmap(block.cast(), size) };
    }

    /// A fresh mapping of zeros that starts at a huge page; null if there is no memory.
    pub fn map(size: usize) -> *mut u8 {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let Some(with_room) = size.checked_add(HUGE) else { return std::ptr::null_mut() };
        // SAFETY: a new mapping touches nothing that exists; what is unmapped and advised lies inside it. A kernel that
        // does not know the advice refuses it, without harm.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), with_room, protection, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return std::ptr::null_mut();
            }
            let start = start.cast::<u8>();
            let before = start.addr().next_multiple_of(HUGE) - start.addr();
            let block = start.add(before);
            if before > 0 {
                libc::munmap(start.cast(), before);
            }
            if before < HUGE {
                libc::munmap(block.add(size).cast(), HUGE - before);
            }
            libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE);
            block
        }
    }
}

/// Where huge pages are not asked for, every block is the system allocator's.
#[cfg(not(target_os = "linux"))]
mod mapped {
    use std::alloc::Layout;

    pub fn size(_: Layout) -> Option<usize> {
        None
    }

    pub fn take(_: usize) -> Option<*mut u8> {
        None
    }

    pub unsafe fn give(_: *mut u8, _: usize) {}

    pub fn map(_: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("a layout")
    }

    #[test]
    fn blocks_of_all_sizes_keep_what_is_written() {
        for size in [1, 4095, 4096, 9999, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20] {
            // SAFETY: every block is used and freed with its own layout.
            unsafe {
                let block = HugePages.alloc(layout(size));
                assert!(size < PAGE || block.addr().is_multiple_of(LINE), "{size}");
                block.write_bytes(7, size);
                for grown in [size + 1, size + (5 << 20)] {
                    let moved = HugePages.realloc(HugePages.alloc(layout(size)), layout(size), grown);
                    HugePages.dealloc(moved, layout(grown));
                }
                let smaller = size.div_ceil(3);
                let block = HugePages.realloc(block, layout(size), smaller);
                assert!(std::slice::from_raw_parts(block, smaller).iter().all(|&b| b == 7), "{size}");
                HugePages.dealloc(block, layout(smaller));
            }
        }
    }

    #[test]
    fn zeroed_blocks_are_zero_also_when_they_were_used_before() {
        let size = 5 << 20;
        for _ in 0..3 {
            // SAFETY: as above.
            unsafe {
                let block = HugePages.alloc_zeroed(layout(size));
                assert!(std::slice::from_raw_parts(block, size).iter().all(|&b| b == 0));
                block.write_bytes(9, size);
                HugePages.dealloc(block, layout(size));
            }
        }
    }
}
