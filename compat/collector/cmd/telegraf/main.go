// Command telegraf is the agent of that name with the plugins that the tests need.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/logger"
	_ "github.com/influxdata/telegraf/plugins/inputs/http_listener_v2"
	_ "github.com/influxdata/telegraf/plugins/outputs/http"
	_ "github.com/influxdata/telegraf/plugins/parsers/influx"
	_ "github.com/influxdata/telegraf/plugins/parsers/prometheusremotewrite"
	_ "github.com/influxdata/telegraf/plugins/serializers/prometheusremotewrite"
)

func main() {
	c := config.NewConfig()
	if err := c.LoadAll(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	if err := logger.SetupLogging(&logger.Config{}); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := agent.NewAgent(c).Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
