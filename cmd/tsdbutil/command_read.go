package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/remote"
)

// readCommand selects series of a server and shows their samples.
type readCommand struct {
	url string
	selectFlags
	mode               string
	user, passwordFile string
	caFile             string
	external           map[string]string
	idle               time.Duration
}

const readHelp = `Select series of a server by remote read and show their samples.

URL is that of a server, http://localhost:9090, or of its endpoint when that is not /api/v1/read. Everything else is as with query, save that series come in the order of the server. Memory use does not depend on the number of samples, except for the output plot. An answer that is cut off is an error, whatever was shown of it.`

// readModes are the values of --mode.
var readModes = map[string]remote.Mode{"any": remote.ModeAny, "streamed": remote.ModeStreamed, "samples": remote.ModeSamples}

func (p *program) addRead() {
	r := &readCommand{external: map[string]string{}}
	cmd := p.app.Command("read", readHelp)
	cmd.Arg("url", "Server.").Required().StringVar(&r.url)
	r.flags(cmd)
	modes := slices.Sorted(maps.Keys(readModes))
	cmd.Flag("mode", "Form of the answer: any (streamed if the server can), streamed, samples.").Default("any").HintOptions(modes...).EnumVar(&r.mode, modes...)
	cmd.Flag("external-label", "Label that the server's side knows this data by: asked for, and taken off; can be repeated.").PlaceHolder("NAME=VALUE").StringMapVar(&r.external)
	cmd.Flag("user", "Name for basic authentication.").PlaceHolder("NAME").StringVar(&r.user)
	cmd.Flag("password-file", "File with the password, without the line break at its end.").PlaceHolder("FILE").StringVar(&r.passwordFile)
	cmd.Flag("ca-file", "Certificates (PEM) that the server's may be signed by, in place of the system's.").PlaceHolder("FILE").StringVar(&r.caFile)
	cmd.Flag("idle-timeout", "How long the server may send nothing.").Default(remote.DefaultIdleTimeout.String()).DurationVar(&r.idle)
	p.add(cmd, r.run)
}

func (r *readCommand) run(ctx context.Context, c *console) error {
	sel, err := r.parse(time.Now())
	if err != nil {
		return err
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	q := client.Querier(sel.mint, sel.maxt)
	defer func() { _ = q.Close() }() // it always returns nil
	hints := &tsdb.SelectHints{Limit: r.limit}
	var names []string
	if r.output == "csv" { // its first line has the names of all labels
		if names, err = labelNames(q.Select(ctx, hints, sel.ms...)); err != nil {
			return err
		}
	}
	found, err := writeResult(ctx, c, sel, q.Select(ctx, hints, sel.ms...), newSamples(sel.step.Milliseconds()), newResultWriter(c, sel, names))
	if err == nil && found == 0 {
		c.message("nothing found")
	}
	return err
}

// labelNames reads an answer for the names of its labels, sorted.
func labelNames(set *remote.SeriesSet) ([]string, error) {
	seen := map[string]bool{}
	for s, err := range set.All() {
		if err != nil {
			return nil, err
		}
		for l := range s.Labels().All() {
			seen[l.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), set.Err()
}

// client is set up by the flags.
func (r *readCommand) client() (*remote.ReadClient, error) {
	if r.idle <= 0 {
		return nil, usageError("--idle-timeout: want a duration above 0")
	}
	external, err := labelFlag("--external-label", r.external)
	if err != nil {
		return nil, err
	}
	opts := &remote.ReadClientOptions{Mode: readModes[r.mode], ExternalLabels: external, IdleTimeout: r.idle, HTTP: &http.Client{}}
	if opts.Header, err = r.header(); err != nil {
		return nil, err
	}
	if r.caFile != "" {
		if opts.HTTP.Transport, err = trusting(r.caFile); err != nil {
			return nil, err
		}
	}
	client, err := remote.NewReadClient(endpoint(r.url), opts)
	if err != nil {
		return nil, usageError(err.Error())
	}
	return client, nil
}

// readPath is where servers have their remote-read endpoint.
const readPath = "/api/v1/read"

// endpoint adds the usual path to the URL of a server that has none.
func endpoint(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Path != "" && u.Path != "/" {
		return text
	}
	u.Path = readPath
	return u.String()
}

// header has the credentials.
func (r *readCommand) header() (http.Header, error) {
	if r.user == "" && r.passwordFile == "" {
		return nil, nil
	}
	if r.user == "" || r.passwordFile == "" {
		return nil, usageError("--user and --password-file need each other")
	}
	password, err := os.ReadFile(r.passwordFile)
	if err != nil {
		return nil, errors.Wrap(err, "read password")
	}
	req := http.Request{Header: http.Header{}}
	req.SetBasicAuth(r.user, strings.TrimRight(string(password), "\r\n"))
	return req.Header, nil
}

// trusting is the usual transport with certificates of one's own.
func trusting(caFile string) (http.RoundTripper, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, errors.Wrap(err, "read certificates")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.Errorf("%s has no certificates", caFile)
	}
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		usual = &http.Transport{}
	}
	transport := usual.Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}
