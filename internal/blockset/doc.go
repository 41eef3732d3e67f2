// Package blockset holds the blocks of a data directory while it is open: which there are, what is
// deleted of them, where the head begins, and which should be there and are not. What queries see
// of that is one immutable View, which is replaced as a whole. A block is open as long as somebody
// has it pinned, and its directory goes when it left the view.
//
// It knows how blocks are opened, set aside when they are damaged, listed, replaced and removed. It
// does not know when: to load, merge, delete and drop is for the root to decide. What it finds it
// returns as data, or logs where nobody would hear of it. It knows nothing of the head but where it
// begins, and does not read samples.
//
// A Set is safe for concurrent use. Files are those of docs/format/blocks.md and
// docs/format/blocks-list.md.
package blockset
