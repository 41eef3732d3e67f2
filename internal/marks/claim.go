package marks

import (
	"path/filepath"
	"reflect"
	"sync"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// claim is a file of marks, by one name whoever opens it.
type claim struct {
	fs   fileutil.FS
	path string
}

// claims are those of all Stores of this process that are not closed. Two of a file would write
// over what the other one notes, and pass on the same samples. Other processes are kept away by the
// lock of the data directory.
var claims sync.Map // of claim

// claimFile claims a file: ErrInUse.
func claimFile(fsys fileutil.FS, path string) (claim, error) {
	under := fileutil.Under(fsys)
	path, err := fileutil.Abs(under, filepath.Clean(path))
	if err != nil {
		return claim{}, err
	}
	if !reflect.ValueOf(under).Comparable() {
		under = fsys // what databases put around it can be compared
	}
	c := claim{under, path}
	if _, taken := claims.LoadOrStore(c, nil); taken {
		return claim{}, ErrInUse
	}
	return c, nil
}

func (c claim) release() { claims.Delete(c) }
