package blockdir

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// maxMetaBytes bounds what is read as a meta file. One with 100,000 sources has 4 MB.
const maxMetaBytes = 64 << 20

// ReadMeta reads the meta file of a block. A missing, empty or damaged one is
// encbuf.ErrCorrupt, and so is one whose immutable fields are not those that the
// sidecar knows; another version is ErrUnsupportedVersion. Version 2, of Prometheus 2.1, is
// returned as it is.
//
//go:noinline
func ReadMeta(fsys fileutil.FS, blockDir string) (Meta, error) {
	m, _, err := readMeta(fsys, blockDir)
	return m, err
}

// readMeta also tells what the sidecar says.
func readMeta(fsys fileutil.FS, blockDir string) (m Meta, side sidecarState, err error) {
	path := filepath.Join(blockDir, metaName)
	if err := isFile(fsys, path); err != nil {
		return Meta{}, side, err
	}
	b, err := fileutil.ReadFile(fsys, path, maxMetaBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, side, encbuf.Corrupt(0, "meta file of the block is missing").At(path, 0)
	}
	if err != nil {
		return Meta{}, side, err
	}
	if m, err = DecodeMeta(b); err != nil {
		if errors.Is(err, ErrUnsupportedVersion) {
			err = versionDamage(fsys, blockDir, err)
		}
		return Meta{}, side, placed(err, path)
	}
	if side, err = checkSidecar(fsys, blockDir, &m); err != nil {
		return Meta{}, side, err
	}
	return m, side, nil
}

// versionDamage tells a version that somebody wrote from one that a bit has changed: where
// there is a sidecar, the file beside it had version 1.
func versionDamage(fsys fileutil.FS, blockDir string, unsupported error) error {
	b, err := readSidecar(fsys, blockDir)
	if err != nil {
		return err
	}
	if _, ok := decodeSidecar(b); !ok {
		return unsupported
	}
	return encbuf.Corrupt(0, unsupported.Error()+", and had "+strconv.Itoa(metaVersion)+" when the block was written")
}

// placed puts the file into damage of a bare decoder; other errors get its name.
func placed(err error, path string) error {
	if damage, ok := encbuf.AsCorrupt(err); ok {
		return damage.At(path, 0)
	}
	return errors.WithMessage(err, path)
}

// WriteMeta replaces the meta file of a block and, if it has to, its sidecar: after a
// crash the old or the new one is there, whole. On an error either may be. What the sidecar
// says of the order of series it says again, unless a field changes that never does.
func WriteMeta(fsys fileutil.FS, blockDir string, m Meta) error {
	old, err := readSidecar(fsys, blockDir)
	if err != nil {
		return err
	}
	said, ok := decodeSidecar(old)
	same := ok && said.core == encbuf.Checksum(appendCore(nil, &m))
	return writeMeta(fsys, blockDir, m, old, same && said.inOrder)
}

// writeMeta is WriteMeta where the old sidecar was read, and it is known what to say of the order.
func writeMeta(fsys fileutil.FS, blockDir string, m Meta, old []byte, inOrder bool) error {
	b, err := EncodeMeta(m)
	if err != nil {
		return err
	}
	fresh := bytes.Equal(old, encodeSidecar(&m, inOrder))
	if len(old) > 0 && !fresh {
		// A sidecar that knows of other content must not meet the new file.
		if err := fileutil.RemoveAll(fsys, filepath.Join(blockDir, sidecarName)); err != nil {
			return err
		}
		if err := fsys.SyncDir(blockDir); err != nil {
			return err
		}
	}
	path := filepath.Join(blockDir, metaName)
	if err := fileutil.WriteFileAtomic(fsys, path+tmpSuffix, path, b); err != nil {
		return err
	}
	if fresh {
		return nil
	}
	return RenewSidecar(fsys, blockDir, m, inOrder)
}
