from devrt.distributed.transfer.offers import Offer as Offer
from devrt.distributed.transfer.server import TransferBounds as TransferBounds
from devrt.experimental.transfer.connection import TransferConnection as TransferConnection
from devrt.experimental.transfer.factory import make_transfer_server_interface_factory as make_transfer_server_interface_factory
from devrt.experimental.transfer.server import start_transfer_server as start_transfer_server
from devrt.experimental.transfer.server import TransferServer as TransferServer
