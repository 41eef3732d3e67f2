package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/crypto/bcrypt"
)

// guard lets those in whose password it knows, by basic authentication. A nil guard lets
// everybody in.
type guard struct {
	hashes map[string][]byte // bcrypt, by name
	nobody []byte            // is compared for names that are not known, which then take as long
	slots  chan struct{}     // to compare takes a CPU for long: one each
}

// Bounds of a file of passwords.
const (
	maxHtpasswd   = 1 << 20
	maxBcryptCost = 16 // seconds for each request, and for each wrong password
)

// readHtpasswd reads a file of lines NAME:HASH; empty lines, and those that begin with #,
// are skipped.
func readHtpasswd(name string) (*guard, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, errors.Wrap(err, "read passwords")
	}
	if len(text) > maxHtpasswd {
		return nil, errors.Errorf("%s has %d bytes, the limit is %d", name, len(text), maxHtpasswd)
	}
	g := &guard{hashes: map[string][]byte{}, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	highest := bcrypt.MinCost
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxHtpasswd+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		user, hash, ok := strings.Cut(line, ":")
		cost, err := bcrypt.Cost([]byte(hash))
		switch {
		case !ok || user == "" || err != nil:
			return nil, errors.Errorf("%s, line %d: want NAME:HASH with a bcrypt hash, as \"htpasswd -B\" makes", name, n)
		case cost > maxBcryptCost:
			return nil, errors.Errorf("%s, line %d: a bcrypt cost of %d, the limit is %d", name, n, cost, maxBcryptCost)
		case g.hashes[user] != nil:
			return nil, errors.Errorf("%s, line %d: a second password for %s", name, n, user)
		}
		g.hashes[user] = []byte(hash)
		highest = max(highest, cost)
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Wrap(err, "read passwords")
	}
	if len(g.hashes) == 0 {
		return nil, errors.Errorf("%s has no passwords", name)
	}
	g.nobody, err = bcrypt.GenerateFromPassword([]byte("nobody"), highest)
	return g, errors.Wrap(err, "make a hash")
}

// wrap puts the guard in front of a handler.
func (g *guard) wrap(h http.Handler) http.Handler {
	if g == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.admits(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="tsdb", charset="UTF-8"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// admits compares the password of a request. What is not known costs as much as a wrong
// password.
func (g *guard) admits(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	if !ok {
		return false
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-r.Context().Done():
		return false
	}
	hash, known := g.hashes[user]
	if !known {
		hash = g.nobody
	}
	return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil && known
}
