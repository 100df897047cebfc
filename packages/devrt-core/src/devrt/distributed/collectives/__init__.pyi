from devrt.contract import Collectives as Collectives
from devrt.distributed.collectives.connecting import connect as connect
from devrt.distributed.collectives.connecting import engines as engines
from devrt.distributed.collectives.connecting import of_job as of_job
from devrt.distributed.collectives.factories import make_gloo_tcp_collectives as make_gloo_tcp_collectives
from devrt.distributed.collectives.factories import make_mpi_collectives as make_mpi_collectives
from devrt.distributed.collectives.host import HostCollectives as HostCollectives
from devrt.distributed.collectives.in_programs import use_collectives as use_collectives
