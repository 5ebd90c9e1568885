//! Memory in huge pages.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which asks for huge pages where an allocation is large. A program that trains makes it its
/// global allocator.
///
/// Activations are hundreds of megabytes that every step sweeps several times. In pages of 4 KiB most of such a sweep is
/// address translation, dearer still in a virtual machine; Linux gives huge pages to those who ask (`madvise` is its
/// default setting), and most programs do not ask.
pub struct HugePages;

/// Allocations from this size on are advised; a smaller one holds no whole huge page.
const LEAST: usize = 2 << 20;

// SAFETY: all memory is the system allocator's; advice changes how it is mapped, not what it holds.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this function.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LEAST {
            // SAFETY: by the contract of this function.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // Advice must come before the first touch.
        // SAFETY: the new block is as large as is written.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the contract of this function.
        advised(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this function.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Asks for huge pages for the whole pages of a large block, and gives the block back.
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    if size >= LEAST && !block.is_null() {
        const PAGE: usize = 4096;
        let skip = block.align_offset(PAGE);
        // SAFETY: the range lies inside the block; a kernel that does not know the advice refuses it, without harm.
        unsafe {
            libc::madvise(block.add(skip).cast(), (size - skip) / PAGE * PAGE, libc::MADV_HUGEPAGE);
        }
    }
    block
}
