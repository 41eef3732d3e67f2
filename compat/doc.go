// Package compat has only tests: it holds this library and the reference
// implementation of the file format, the TSDB of Prometheus v0.315.1, against each
// other. It is a module of its own so that the reference never becomes a dependency
// of the library.
//
// What is proven, by file:
//
//   - scenes_test.go: directories with blocks, flushed, merged, deleted from, cleaned,
//     closed or left by a crash, by ours and by the reference (scenes in world_test.go,
//     and what only the reference or an operator does in more_scenes_test.go), are read
//     by all: ours read-write, read-only and by Verify, the reference read-write and
//     read-only, promtool list, analyze and dump, and a Prometheus server over HTTP.
//   - relay_test.go: both work in turns on one directory with blocks.
//   - duel_blocks_test.go: the same operations on blocks in both give the same answers.
//   - duel_kinds_test.go, duel_kinds_commit_test.go, duel_kinds_beside_test.go: the same with samples
//     of every kind, in order and late, exemplars and metadata.
//   - kill_blocks_test.go: processes of both are killed while they append, delete, flush
//     and merge.
//   - copies_test.go: snapshots and backfilled blocks of both, and readers beside a live
//     writer of the other.
//   - index_v1_test.go: blocks of Prometheus 2.0.
//   - histograms_test.go: native histograms in blocks, head chunks and logs of the reference are
//     read as it reads them, hints included, and go through merges, deletes and flushes of ours.
//   - histograms_both_test.go: random floats and histograms of all kinds in one series and one
//     commit, with stale markers and start timestamps, written by either and read by both.
//   - histogram_chunks_test.go, histogram_records_test.go: random histograms become the same
//     chunks and the same records in both.
//   - tsdbutil_test.go: our tool dumps floats and histograms as promtool does.
//   - differences_test.go: what is meant to differ, see below.
//   - forward_test.go: what we wrote, after a clean close, after a kill and after a
//     cut log that we recovered, opens in the reference, read-write and read-only,
//     with equal samples, no corruption counted and no line of damage logged.
//   - backward_test.go: what the reference wrote, after a close and after a kill,
//     torn or not, opens here with the samples that the reference itself finds.
//   - roundtrip_test.go: both append in turns to one directory.
//   - lock_test.go: neither opens what the other one holds.
//   - late_test.go: late samples of every kind, in memory, logs, head chunks and blocks, closed or
//     killed, written by either and read by both, before and after both have made blocks of them;
//     deletes of ours in between.
//   - remote_test.go: both clients of remote read get equal answers from both servers, in
//     both modes; a Prometheus server reads ours as its own data; an answer of the
//     reference that is cut anywhere is an error here.
//   - remote_histograms_test.go: the same with samples of every kind.
//   - remote_requests_test.go: both servers understand requests that no client sends.
//   - xor2_test.go: all of that, relays and remote read included, with blocks, head chunks
//     and logs of the reference's second encoding of floats; start timestamps.
//   - head_snapshots_test.go: snapshots of the head, ours and the reference's, beside each
//     other: nobody else reads ours, and neither trusts its own when the other has written.
//   - http_api_test.go: a Prometheus server that has opened a copy of a directory answers over
//     HTTP what ours answers; promtool and the client of Go programs ask ours.
//   - old_prometheus_test.go: Prometheus 2.42 opens what we wrote, answers the same, and reads
//     from afar.
//   - vmctl/: a reader that is not Prometheus takes a snapshot of ours, and reads from afar.
//   - collector/: an OpenTelemetry Collector and a Telegraf send to ours; a module of its own.
//   - differential_test.go: the same operations in both give the same answers.
//
// Every test is repeatable: it takes its randomness from the seed that it prints, and
// COMPAT_SEED=n in the environment moves all seeds. A kill hits wherever the child
// process happens to be; what must hold afterwards does not depend on where.
//
// promtool and the server (peers_test.go) are built from the module that the tests
// import, without service discovery, on first use: some five minutes of two processors,
// and a second from then on, as the go command keeps them in its cache. Prometheus 2.42 and
// vmctl are those of Debian (packages prometheus and victoria-metrics), wherever they are in the
// path. Tests of what is missing skip, or fail with TSDB_REQUIRE_ROOT_TESTS=1.
//
// # Intended differences
//
// These are not differences in the files, so nothing here trips over them:
//
//   - A failed commit is gone for good. The reference may show its samples after a
//     restart, because they may have reached the log.
//   - A commit is seen and recovered whole or not at all. The reference replays what
//     there is of a torn one record by record.
//   - Append refuses a series without labels, labels with an empty name or a name
//     twice, and text that is not UTF-8; the reference takes some of them. Empty
//     values are dropped by both.
//   - Limits on labels and on times in the future are on by default.
//   - A sample that became late between Append and Commit is reported in the
//     CommitResult and is not logged. The reference logs it and leaves it out
//     silently, then and at every replay.
//   - No time is too old for a series that has no newer sample. The reference also
//     refuses what is older than half a block range before the newest sample of the
//     whole database.
//   - A late sample is refused where the head has another value at its time, unless the last write
//     is to win. The reference takes it, and which of both is read changes with time.
//   - A delete takes late samples, too, and they stay deleted. The reference leaves out most of
//     them, and some come back.
//   - When a series that the reference has forgotten comes back, it loses late samples at its next
//     start but one. They are kept here.
//   - Select without matchers selects everything. The reference wants one matcher.
//   - Label names and values come from series that have samples. The reference also
//     lists series that were created by an Appender that was rolled back.
//   - Damage in the middle of the log costs the commits that it hits. The reference
//     cuts the log there and deletes what follows.
//   - When one appender of the reference creates a series and another commits to it
//     first, the reference logs samples before their series and loses them at its next
//     start. They are kept here.
//   - When a crash takes a chunk file of the reference, and the capacity of out-of-order chunks is
//     raised, it loses late samples at its next start but one. They are read here.
//   - When its head is longer than a block after a flush, and has late samples behind that, the
//     reference loses samples in order at its next start. Here they are kept.
//   - A stale marker that is a float, ends a series of histograms and comes before a histogram of
//     the same commit is there. The reference has it after its next start only.
//   - Exemplars of a time that their series has one of already are kept. The reference drops some of
//     them, and when it starts those that are older than its blocks.
//   - A stale histogram that says that it is a gauge, behind gauges, keeps the reference from making
//     a block of its head. It is flushed here.
//   - A query that begins and ends before a deleted range may make the reference panic.
//   - Damaged files are copied to quarantine/ before they are changed.
//
// About blocks; each has its test in differences_test.go:
//
//   - A damaged block is set aside, the rest opens, and queries that touch its times say
//     what is missing. The reference does not start, or, when meta.json is what is
//     damaged, answers without the block in silence.
//   - A tombstones file that is lost is damage. The reference shows what was deleted.
//     One that is cut makes it panic.
//   - When the newest block is deleted and cleaned away, its samples stay away. In the
//     reference they come back from the log.
//   - Two deleted ranges before 1970 are flushed as any others. The reference panics.
//   - Two samples of one series at the same time with different values, in blocks that
//     overlap: the older block's wins here, in the reference it depends. No test makes
//     such.
//
// About remote read; tested in remote_requests_test.go:
//
//   - A request that cannot be understood is 400. The reference answers some with 500, and
//     takes any method.
//   - A query without matchers selects everything, hints with times of 0 have no range, and
//     the hint that only labels are wanted changes nothing. The reference sends nothing then.
//   - Hints that go beyond the range of their query are followed. The reference follows
//     them as far as the blocks go that the query touches.
//   - Series that have no samples in the range are left out. The reference names some.
//   - The negative zero keeps its sign in the mode SAMPLES, the sum of a histogram, too.
//   - In the mode SAMPLES histograms come without their empty buckets.
//
// After deletes and restarts the reference may write head chunks of one series that
// overlap, and then, at its next start, count them as corrupt and make all of them anew
// from the log. Nothing is lost; the tests excuse it where the reference wrote.
//
// # Known gap
//
// When the reference has truncated its head and the blocks are gone, which it never
// does by itself, its log may have samples before the first head chunk of a series. It
// hides them; they are shown here, and the reference counts a corrupt head chunk when
// the directory goes back, though it loses nothing.
package compat
