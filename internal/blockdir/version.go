package blockdir

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Prometheus 2.1 wrote the version of the index into the meta file, and that of the meta
// file into the index.
const (
	versionOffset = 4 // of the index's version byte, behind its magic number
	indexVersion  = 2

	repairedName = "index.repaired"
)

// repairVersions puts the version numbers of a block with the bug right: those of the index
// first, so that the meta file says what is left to do. A crash at any time leaves a
// block that is repaired by the next call.
func repairVersions(fsys fileutil.FS, blockDir string) error {
	m, err := ReadMeta(fsys, blockDir)
	if err != nil {
		return err
	}
	path := filepath.Join(blockDir, indexName)
	right, err := hasIndexVersion(fsys, path)
	if err != nil {
		return err
	}
	if !right {
		if err := rewriteIndex(fsys, path, filepath.Join(blockDir, repairedName)); err != nil {
			return err
		}
	}
	m.Version = metaVersion
	return WriteMeta(fsys, blockDir, m)
}

func hasIndexVersion(fsys fileutil.FS, path string) (bool, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, encbuf.Corrupt(0, "index of the block is missing").At(path, 0)
	}
	if err != nil {
		return false, err
	}
	var header [versionOffset + 1]byte
	n, err := f.ReadAt(header[:], 0)
	if n < len(header) && errors.Is(err, io.EOF) {
		err = encbuf.Corrupt(n, "index ends inside its header").At(path, 0)
	} else if n == len(header) {
		err = nil
	}
	return header[versionOffset] == indexVersion, fileutil.JoinErrors(err, f.Close())
}

// rewriteIndex replaces the index by a copy with another version byte, which no checksum
// covers.
func rewriteIndex(fsys fileutil.FS, path, tmp string) error {
	if err := fileutil.RemoveAll(fsys, tmp); err != nil {
		return err
	}
	if err := copyWithVersion(fsys, path, tmp); err != nil {
		return fileutil.JoinErrors(err, fileutil.RemoveAll(fsys, tmp))
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return fileutil.JoinErrors(err, fileutil.RemoveAll(fsys, tmp))
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// copyPiece is how much is copied at a time, in bytes.
const copyPiece = 256 << 10

func copyWithVersion(fsys fileutil.FS, path, tmp string) error {
	from, err := fsys.Open(path)
	if err != nil {
		return err
	}
	to, err := fsys.Create(tmp)
	if err != nil {
		return fileutil.JoinErrors(err, from.Close())
	}
	err = copyPieces(to, from)
	if err == nil {
		err = to.Sync()
	}
	return fileutil.JoinErrors(err, to.Close(), from.Close())
}

func copyPieces(to, from fileutil.File) error {
	size, err := from.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, copyPiece)
	for off := int64(0); off < size; off += copyPiece {
		piece := buf[:min(copyPiece, size-off)]
		if n, err := from.ReadAt(piece, off); n < len(piece) {
			return errors.Wrap(err, "copy index")
		}
		if off == 0 {
			piece[versionOffset] = indexVersion
		}
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
