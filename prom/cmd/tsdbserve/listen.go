package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
)

// listeners checks who may connect, and listens.
func (c *config) listeners() ([]net.Listener, error) {
	guarded, err := c.readWebConfig()
	if err != nil {
		return nil, err
	}
	var all []net.Listener
	for _, address := range c.listen {
		l, err := listenAt(address, guarded || c.insecure)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, l)
	}
	return all, nil
}

func listenAt(address string, anywhere bool) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--web.listen-address: %w", err)
	}
	if !addr.IP.IsLoopback() && !anywhere {
		return nil, fmt.Errorf("--web.listen-address: others can reach %s: give a --web.config.file with users or client certificates, or --insecure", address)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

func closeAll(all []net.Listener) error {
	var errs []error
	for _, l := range all {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// readWebConfig reads the configuration file, and reports whether it lets only some connect.
func (c *config) readWebConfig() (guarded bool, err error) {
	if c.webConfig == "" {
		return false, nil
	}
	if err := web.Validate(c.webConfig); err != nil {
		return false, fmt.Errorf("--web.config.file: %w", err)
	}
	text, err := os.ReadFile(c.webConfig)
	if err != nil {
		return false, fmt.Errorf("--web.config.file: %w", err)
	}
	var file struct {
		Users map[string]string `yaml:"basic_auth_users"`
		TLS   *struct {
			ClientAuth string `yaml:"client_auth_type"`
		} `yaml:"tls_server_config"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return false, fmt.Errorf("--web.config.file: %w", err)
	}
	c.tls = file.TLS != nil
	return len(file.Users) > 0 || c.tls && file.TLS.ClientAuth == "RequireAndVerifyClientCert", nil
}

// url is where clients find the server. Where it listens at every address, this machine is one of
// them.
func (c *config) url(addr net.Addr) string {
	scheme, host := "http://", addr.String()
	if c.tls {
		scheme = "https://"
	}
	if a, ok := addr.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", strconv.Itoa(a.Port))
	}
	return scheme + host
}
