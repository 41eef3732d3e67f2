package prom_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// inAProgram is on docs/promql.md, for the directory "data".
func inAProgram(ctx context.Context, dir string) {
	db, err := tsdb.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	query, err := prom.NewEngine(nil).NewInstantQuery(ctx, prom.NewStorage(db), nil, "up", time.Now())
	if err != nil {
		log.Fatal(err) // a parse error says where
	}
	fmt.Println(query.Exec(ctx))
}

func TestDocs_HaveAProgramOfTenLinesThatRuns(t *testing.T) {
	inAProgram(t.Context(), t.TempDir())
	page, err := os.ReadFile("../docs/promql.md")
	require.NoError(t, err)
	source, err := os.ReadFile("docs_test.go")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(page))
	require.NotNil(t, shown)
	body := regexp.MustCompile(`(?ms)^func inAProgram[^\n]*\n(.*?)^}`).FindStringSubmatch(string(source))
	require.NotNil(t, body)
	runs := strings.ReplaceAll("\n"+body[1], "\n\t", "\n")
	require.Equal(t, strings.Replace(runs, "(dir,", `("data",`, 1), "\n"+shown[1])
	require.LessOrEqual(t, strings.Count(shown[1], "\n"), 10)
}
