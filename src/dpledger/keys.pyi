from .ledger.signed.keys import Signer as Signer, SigningKey as SigningKey, VerifyingKey as VerifyingKey
from .ledger.signers.delegating import Delegating as Delegating
from .ledger.signers.kms import KmsKey as KmsKey
from .ledger.signers.ssh_agent import SshAgentKey as SshAgentKey

__all__: list[str]
