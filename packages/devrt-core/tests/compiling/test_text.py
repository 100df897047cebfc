"""What is read of a program's text, whatever form it is written in."""

import pytest

from devrt.compiling import Program
from devrt.compiling.refusals import check
from devrt.compiling.text import read_text
from devrt.errors import InvalidArgumentError, UnimplementedError

RECURSIONS = {
    "generic": """"func.func"() <{function_type = (i32) -> i32, sym_name = "f"}> ({
      ^bb0(%a: i32):
        %0 = "func.call"(%a) <{callee = @f}> : (i32) -> i32
        "func.return"(%0) : (i32) -> ()
      }) : () -> ()""",
    "generic with its name behind": """"func.func"() ({
      ^bb0(%a: i32):
        %0 = "func.call"(%a) {"callee" = @f} : (i32) -> i32
        "func.return"(%0) : (i32) -> ()
      }) {sym_name = "f", function_type = (i32) -> i32} : () -> ()""",
    "a generic call": """func.func @f(%a: i32) -> i32 {
        %0 = "func.call"(%a) <{callee = @f}> : (i32) -> i32
        return %0 : i32 }""",
    "an escaped key": """func.func @f(%a: i32) -> i32 {
        %0 = "func.call"(%a) <{"call\\65e" = @f}> : (i32) -> i32
        return %0 : i32 }""",
    "a composite": """func.func @f(%a: i32) -> i32 {
        %0 = stablehlo.composite "a.b" %a {decomposition = @f} : (i32) -> i32
        return %0 : i32 }""",
    "called computations": """func.func @f(%a: i32) -> i32 {
        %0 = stablehlo.custom_call @g(%a) {called_computations = [@h, @f]} : (i32) -> i32
        return %0 : i32 }""",
    "in a nested module": """module @m { func.func @f(%a: i32) -> i32 {
        %0 = func.call @f(%a) : (i32) -> i32
        return %0 : i32 } }""",
    "in a generic module": """"builtin.module"() ({ func.func @f(%a: i32) -> i32 {
        %0 = func.call @f(%a) : (i32) -> i32
        return %0 : i32 } }) : () -> ()""",
}


@pytest.mark.parametrize("name", RECURSIONS)
def test_functions_that_call_themselves_are_found_in_every_form(name):
    with pytest.raises(InvalidArgumentError, match="@f calls itself"):
        check(Program.of(f"module {{ {RECURSIONS[name]} }}"), "compile")


@pytest.mark.parametrize("region", ["({})", "({ })", "( { // none\n } )"])
def test_a_generic_function_without_a_body_is_refused(region):
    text = f'"func.func"() <{{sym_name = "f", function_type = () -> ()}}> {region} : () -> ()'
    with pytest.raises(InvalidArgumentError, match="@f has no body"):
        check(Program.of(f"module {{ {text} }}"), "compile")


@pytest.mark.parametrize(
    "text",
    [
        # Functions of one name in modules of their own.
        """module { module @m { func.func @f() { return } func.func @g() { call @f() : () -> ()
        return } } func.func @g() { return } func.func @f() { call @g() : () -> () return } }""",
        "module { func.func @f() { stablehlo.custom_call @f() : () -> () return } }",
        'func.func @f() { return } loc(fused["callee = @f"])',
        "func.func @f() { // call @f\n return }",
        "func.func @f() attributes {callee = @f} { return }",
        """"func.func"() <{function_type = () -> (), sym_name = "f"}> ({
        "func.return"() : () -> () }) : () -> ()""",
    ],
)
def test_functions_that_do_not_call_themselves_are_taken(text):
    check(Program.of(text), "compile")


def test_a_tuple_is_looked_for_in_types_alone():
    head = "func.func @main(%a: tensor<i32> {}) -> tensor<i32> {{ return %a : tensor<i32> }}"
    for aside in ('{jax.note = "a: tuple<b"}', "// was: tuple<\n"):
        check(Program.of(head.format(aside)), "compile")
    generic = """"func.func"() <{function_type = (tuple<tensor<i32>>) -> (), sym_name = "main"}> ({
      ^bb0(%a: tuple<tensor<i32>>): "func.return"() : () -> () }) : () -> ()"""
    with pytest.raises(UnimplementedError, match="takes or gives a tuple"):
        check(Program.of(generic), "compile")


def test_facts_are_read_outside_of_comments_strings_and_locations():
    text = b"""// mhlo.num_replicas = 4
    module attributes {mhlo.num_partitions = 2 : i32, a.b = "mhlo.num_partitions = 5"} {
      // sdy.mesh @no = <["x"=8]>
      sdy.mesh @yes = <["x"=2]>
      func.func @main() { return } loc("mhlo.num_replicas = 3")
    }"""
    facts = read_text(text)
    assert (facts.num_replicas, facts.num_partitions) == (None, 2)
    assert facts.meshes == ((("x", 2),),)
    assert read_text(b'module attributes {"mhlo.num_replicas" = 3 : i32} {}').num_replicas == 3


def test_operations_are_those_in_the_place_of_one():
    text = b"""func.func @main(%a: tensor<i32>) {
      %0 = stablehlo.add %a, %a {note = "(stablehlo.infeed", stablehlo.key = 1 : i32} : tensor<i32>
      %1 = "stablehlo.abs"(%0) : (tensor<i32>) -> tensor<i32> loc("stablehlo.sine"("a.py":1:1))
      return
    }"""
    assert read_text(text).operations == {"stablehlo.abs", "stablehlo.add"}


def test_the_pass_sees_a_program_in_one_module_as_it_is():
    text = read_text(b"module { func.func private @f() func.func public @main() { call @f() } }")
    assert [(each.name, each.has_body, each.calls) for each in text.functions] == [
        (b"f", False, set()),
        (b"main", True, {b"f"}),
    ]
