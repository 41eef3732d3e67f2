package remote

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("TSDB_TEST_WRITER") != "" {
		runChild()
		return
	}
	goleak.VerifyTestMain(m)
}
