from devrt.compiling.program import Program as Program
from devrt.compiling.program_facts import Function as Function
from devrt.compiling.program_facts import ProgramFacts as ProgramFacts
