"""Static probes of a training set-up: six questions, each answered yes, no or cannot tell, with evidence."""

from dpledger.audit.probes.asking import probe
from dpledger.audit.probes.loops import probe_loop, probe_sgd
from dpledger.audit.probes.result import ProbeReport

__all__ = ["ProbeReport", "probe", "probe_loop", "probe_sgd"]
