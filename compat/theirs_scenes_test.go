package compat

import "testing"

// What the reference wrote is read by all readers of the reference: the tests know what
// must be there.
func TestScenes_OfTheReference_ReadByTheReference(t *testing.T) {
	eachScene(t, openTheirBlocks, 3000, requireReferenceReadsBlocks)
}

// A real Prometheus serves it.
func TestScenes_OfTheReference_ServedByPrometheus(t *testing.T) {
	eachScene(t, openTheirBlocks, 3000, requireServerReads)
}
