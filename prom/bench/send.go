package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// sendSamples is the most samples of a request, of both.
const sendSamples = 2000

// sentVersions are the versions of remote write.
const sentVersions = 2

// sender is an engine that sends what it has to a receiver of remote write.
type sender interface {
	// beginSending notes that what comes from now on is to be sent.
	beginSending(url string) error
	// send sends so many samples, one request after the other, by version 1.0 or 2.0, the
	// places of which are 0 and 1, and returns when all are taken.
	send(url string, version, samples int) error
}

// send measures sending what the log has, 2,000 samples a request, to a receiver in the same process
// that takes requests unseen.
func send(t task) (m measures, err error) {
	m = measures{}
	t.Samples = min(t.Samples, writeScrapes)
	for i := range sentVersions {
		one := t
		one.Dir = filepath.Join(t.Dir, strconv.Itoa(i))
		if err := one.send(i, m); err != nil {
			return nil, errors.WithMessagef(err, "send %d.0", i+1)
		}
	}
	return m, nil
}

func (t task) send(version int, m measures) (err error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(sendSamples))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	s := e.(sender)
	if err := s.beginSending(server.URL); err != nil {
		return err
	}
	// The reference sends what is younger than its sender.
	at := time.Now().Add(5 * time.Minute).UnixMilli()
	values, vs := newValues(t.Series, seed), make([]float64, t.Series)
	values.scrape(vs)
	if err := e.create(t.sets(), at, vs, perCommit); err != nil {
		return err
	}
	for range t.Samples {
		at += time.Second.Milliseconds()
		values.scrape(vs)
		if err := scrape(e.append, at, vs, perCommit); err != nil {
			return err
		}
	}
	samples := t.Series * (1 + t.Samples)
	before := nowCollected()
	if err := s.send(server.URL, version, samples); err != nil {
		return err
	}
	cost := now().since(before)
	row := "send/v" + strconv.Itoa(version+1)
	m[row+"/cpu"] = float64(samples) / cost.cpu.Seconds()
	m[row+"/wall"] = float64(samples) / cost.wall.Seconds()
	m[row+"/garbage"] = float64(cost.allocBytes) / float64(samples)
	return nil
}
