package bench

import (
	"net/http"

	"github.com/seed347100a3/tsdb/remote"
)

func (o *ours) readHandler() http.Handler { return remote.ReadHandler(o.db, nil) }

func (o *ours) otlpHandler() http.Handler { return remote.NewOTLPHandler(o.db, nil) }

func (o *ours) writeHandler() http.Handler { return remote.NewWriteHandler(o.db, nil) }
