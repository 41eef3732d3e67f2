package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/crypto/bcrypt"
)

// guard lets those in whose password it knows, by basic authentication. A nil guard lets
// everybody in.
type guard struct {
	hashes map[string][]byte // bcrypt, by name
	nobody []byte            // is compared for names that are not known, which then take as long
	slots  chan struct{}     // to compare takes a CPU for long: one each
	key    []byte            // of sums, random

	mu struct {
		sync.Mutex
		admitted map[string][]byte // the sum of the password that was right last, by name
	}
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
	g := &guard{hashes: map[string][]byte{}, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), key: []byte(rand.Text())}
	g.mu.admitted = map[string][]byte{}
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
		case !ok || user == "" || err != nil || !wholeBcrypt(hash):
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

// wholeBcrypt is whether nothing is missing of a hash, which no password would fit then.
func wholeBcrypt(hash string) bool {
	const size, alphabet = 60, "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	i := strings.LastIndexByte(hash, '$') + 1
	return len(hash) == size && strings.Trim(hash[i:], alphabet) == ""
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
// password. A right one is remembered: its next request takes no time, and no place in the
// queue of those who try passwords.
func (g *guard) admits(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	if !ok {
		return false
	}
	sum := g.sum(password)
	if g.remembers(user, sum) {
		return true
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
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.admitted[user] = sum
	return true
}

// remembers whether a password was right before.
func (g *guard) remembers(user string, sum []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return hmac.Equal(g.mu.admitted[user], sum)
}

// sum is a password as it is remembered.
func (g *guard) sum(password string) []byte {
	h := hmac.New(sha256.New, g.key)
	_, _ = h.Write([]byte(password)) // a hash takes everything
	return h.Sum(nil)
}
