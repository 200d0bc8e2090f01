/* Entry points of the driver: graphs of what was captured. */
#include "driver.h"

using namespace ptx;

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return answered([=](Driver &of) {
    if (mode != TM_CU_CAPTURE_RELAXED) throw Refusal(INVALID_VALUE, "a capture that forbids what other threads do");
    of.streams.begin_capture(stream_of(stream));
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *made) {
  return answered([=](Driver &of) { *made = new CUgraph_st{of.streams.end_capture(stream_of(stream))}; });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long) {
  *made = new CUgraphExec_st{graph->graph};
  return OK;
}

/* Where the nodes are others, it stays as it was. */
CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, tm_cu_update *why) {
  const CUresult code = answered([=](Driver &) {
    if (executable->graph->nodes.size() != graph->graph->nodes.size()) throw Refusal(INVALID_VALUE, "a graph with other nodes");
    executable->graph = graph->graph;
  });
  why->result = code != OK;
  return code;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return answered([=](Driver &of) { of.streams.launch(*executable->graph, stream_of(stream)); });
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return OK;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  delete executable;
  return OK;
}
