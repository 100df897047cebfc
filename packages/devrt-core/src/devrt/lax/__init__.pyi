from devrt.lax.control_flow import cond as cond
from devrt.lax.control_flow import fori_loop as fori_loop
from devrt.lax.control_flow import switch as switch
from devrt.lax.control_flow import while_loop as while_loop
from devrt.lax.scans import map as map
from devrt.lax.scans import scan as scan
