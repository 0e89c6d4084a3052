"""Static probes of a training set-up: six questions, each answered yes, no or cannot tell, with evidence."""

from dpledger.audit.training.probes.asking import probe
from dpledger.audit.training.probes.loops import probe_loop, probe_sgd
from dpledger.audit.training.probes.result import ProbeReport

__all__ = ["ProbeReport", "probe", "probe_loop", "probe_sgd"]
