from devrt.contract import Collectives as Collectives
from devrt.distributed.collectives.connecting import connect as connect
from devrt.distributed.collectives.connecting import engines as engines
from devrt.distributed.collectives.connecting import of_job as of_job
from devrt.distributed.collectives.host import HostCollectives as HostCollectives
