"""What a program of each language looks like to those who take it apart: node types as data, no code.

What is a definition is told in `decompose.definition_types`. Here stands the rest: which nodes lead to
steps, what begins with an attribute, what a body may be, what fills an empty one, and how names are bound,
called and imported. Node types are those of the grammars that `decompose.grammars` loads.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Reading:
    """How programs of one language are taken apart. A field name of "" stands for all named children.

    Attributes:
        filler: a statement that fills an emptied body.
        expression: what fills a body that is an expression.
        through: nodes that what is unconditional stays so in, and that give no name to it.
        holders: nodes that belong to the single definition in them, `Syntax.wrappers` aside.
        scopes: nodes that name what lies in them, `CLASS_LIKE` kinds of `Syntax` aside -> field of the body.
        classes: nodes that may hold methods and are values with a name.
        closed: nodes that nothing is looked for in, such as lambdas: what they hold is theirs.
        attributes: nodes at a definition's head that are no part of its signature.
        modifiers: nodes that hold attributes and other words.
        blocks: node types of bodies in braces.
        first: node types of statements that a constructor's body must begin with.
        typed: whether functions of one name may differ by the types of their parameters.
        parameters: node types of parameter lists.
        calls: node types of calls -> fields that tell what is called, receiver first.
        makes: node types that call a constructor -> field of the class.
        constructor: name of a constructor; None where it is that of its class.
        members: node types of `a.b` -> fields, receiver first.
        inner: node types that stand for one of their children -> its field.
        selves: what a function calls its own object or class.
        parents: what a function calls the class that its own derives from.
        implicit: whether a method calls its neighbours without a receiver.
        passes: node types of argument lists in which the name of a function is its value.
        binds: node types that bind names in a function -> fields that hold the names.
        heritage: nodes or fields of a class that tell the classes it derives from.
    """

    filler: str
    through: frozenset[str]
    closed: frozenset[str]
    blocks: frozenset[str]
    parameters: frozenset[str]
    calls: dict[str, tuple[str, ...]]
    expression: str | None = None
    holders: frozenset[str] = frozenset()
    scopes: dict[str, str] = dataclasses.field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    modifiers: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()
    typed: bool = False
    makes: dict[str, str] = dataclasses.field(default_factory=dict)
    constructor: str | None = "constructor"
    members: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    inner: dict[str, str] = dataclasses.field(default_factory=dict)
    selves: frozenset[str] = frozenset(("this",))
    parents: frozenset[str] = frozenset(("super",))
    implicit: bool = False
    passes: frozenset[str] = frozenset()
    binds: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    heritage: frozenset[str] = frozenset()


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _fields(**nodes: str) -> dict[str, tuple[str, ...]]:
    """Node type -> fields; "*" is every named child."""
    return {node.rstrip("_"): tuple("" if one == "*" else one for one in told.split())
            for node, told in nodes.items()}  # fmt: skip


_JAVASCRIPT = Reading(
    filler='throw new Error("not implemented");',
    expression='{ throw new Error("not implemented"); }',
    through=_set("program export_statement lexical_declaration variable_declaration expression_statement"),
    closed=_set("arrow_function function_expression generator_function class_static_block"),
    classes=_set("class object"),
    attributes=_set("decorator"),
    blocks=_set("statement_block"),
    first=_set("super"),
    parameters=_set("formal_parameters"),
    calls=_fields(call_expression="function"),
    makes={"new_expression": "constructor"},
    members=_fields(member_expression="object property", nested_identifier="object property"),
    inner={"parenthesized_expression": "", "non_null_expression": "", "instantiation_expression": ""},
    passes=_set("arguments"),
    binds=_fields(
        variable_declarator="name",
        formal_parameters="*",
        arrow_function="parameter",
        catch_clause="parameter",
        for_in_statement="left",
        function_declaration="name",
        generator_function_declaration="name",
        class_declaration="name",
    ),
    heritage=_set("class_heritage"),
)

_C = Reading(
    filler="__builtin_abort();",
    through=_set("translation_unit declaration type_definition linkage_specification declaration_list"),
    closed=_set("compound_statement"),
    holders=_set("linkage_specification"),
    attributes=_set("attribute_declaration"),
    blocks=_set("compound_statement"),
    parameters=_set("parameter_list"),
    calls=_fields(call_expression="function"),
    members=_fields(field_expression="argument field"),
    inner={"parenthesized_expression": "", "pointer_expression": "argument"},
    selves=frozenset(),
    parents=frozenset(),
    passes=_set("argument_list"),
    binds=_fields(parameter_declaration="declarator", declaration="declarator"),
)

READINGS: dict[str, Reading] = {
    "JavaScript": _JAVASCRIPT,
    "TypeScript": dataclasses.replace(
        _JAVASCRIPT,
        binds={
            **_JAVASCRIPT.binds,
            **_fields(
                required_parameter="pattern",
                optional_parameter="pattern",
                enum_declaration="name",
                abstract_class_declaration="name",
            ),
        },
    ),
    "Java": Reading(
        filler="throw new UnsupportedOperationException();",
        through=_set("program enum_body_declarations"),
        closed=_set("lambda_expression static_initializer block"),
        scopes={"enum_constant": "body"},
        attributes=_set("annotation marker_annotation"),
        modifiers=_set("modifiers"),
        blocks=_set("block constructor_body"),
        first=_set("explicit_constructor_invocation"),
        typed=True,
        parameters=_set("formal_parameters"),
        calls=_fields(method_invocation="object name", method_reference="*"),
        makes={"object_creation_expression": "type"},
        constructor=None,
        members=_fields(
            field_access="object field", scoped_identifier="scope name", scoped_type_identifier="*"
        ),
        inner={"generic_type": "", "parenthesized_expression": ""},
        implicit=True,
        binds=_fields(
            variable_declarator="name",
            formal_parameter="name",
            enhanced_for_statement="name",
            catch_formal_parameter="name",
            inferred_parameters="*",
            lambda_expression="parameters",
            resource="name",
        ),
        heritage=_set("superclass super_interfaces extends_interfaces"),
    ),
    "Go": Reading(
        filler='panic("not implemented")',
        through=_set("source_file"),
        closed=_set("func_literal"),
        blocks=_set("block"),
        parameters=_set("parameter_list"),
        calls=_fields(call_expression="function", type_conversion_expression="type"),
        members=_fields(selector_expression="operand field", qualified_type="package name"),
        inner={
            "parenthesized_expression": "",
            "generic_type": "type",
            "type_instantiation_expression": "type",
        },
        selves=frozenset(),
        parents=frozenset(),
        passes=_set("argument_list"),
        binds=_fields(
            parameter_declaration="name",
            variadic_parameter_declaration="name",
            short_var_declaration="left",
            range_clause="left",
            receive_statement="left",
            var_spec="name",
            const_spec="name",
            type_spec="name",
            type_switch_statement="alias",
        ),
    ),
    "C": _C,
    "C++": dataclasses.replace(
        _C,
        filler='throw "not implemented";',
        through=_C.through | _set("template_declaration field_declaration friend_declaration"),
        closed=_C.closed | _set("lambda_expression"),
        holders=_C.holders | _set("friend_declaration"),
        typed=True,
        makes={"new_expression": "type", "compound_literal_expression": "type"},
        constructor=None,
        members=_fields(field_expression="argument field", qualified_identifier="scope name"),
        inner={
            **_C.inner,
            "template_function": "name",
            "template_type": "name",
            "template_method": "name",
            "dependent_name": "",
        },
        selves=_set("this"),
        implicit=True,
        binds={
            **_C.binds,
            **_fields(
                optional_parameter_declaration="declarator",
                for_range_loop="declarator",
                condition_clause="",
                lambda_capture_initializer="left",
                alias_declaration="name",
            ),
        },
        heritage=_set("base_class_clause"),
    ),
    "C#": Reading(
        filler="throw new System.NotImplementedException();",
        expression="throw new System.NotImplementedException()",
        through=_set("compilation_unit global_statement file_scoped_namespace_declaration"),
        closed=_set("lambda_expression anonymous_method_expression block"),
        holders=_set("global_statement"),
        attributes=_set("attribute_list"),
        blocks=_set("block"),
        typed=True,
        parameters=_set("parameter_list bracketed_parameter_list"),
        calls=_fields(invocation_expression="function"),
        makes={"object_creation_expression": "type"},
        constructor=None,
        members=_fields(
            member_access_expression="expression name",
            qualified_name="qualifier name",
            alias_qualified_name="alias name",
        ),
        inner={"generic_name": "", "parenthesized_expression": ""},
        parents=_set("base"),
        implicit=True,
        passes=_set("argument_list"),
        binds=_fields(
            variable_declarator="name",
            parameter="name",
            parameter_list="name",
            implicit_parameter="*",
            foreach_statement="left",
            declaration_pattern="name",
            declaration_expression="name",
            catch_declaration="name",
            local_function_statement="name",
        ),
        heritage=_set("base_list"),
    ),
    "Ruby": Reading(
        filler="raise NotImplementedError",
        expression="raise(NotImplementedError)",
        through=_set("program"),
        closed=_set("lambda"),
        blocks=frozenset(),
        parameters=_set("method_parameters"),
        calls=_fields(call="receiver method"),
        constructor="initialize",
        members=_fields(call="receiver method", scope_resolution="scope name"),
        selves=_set("self"),
        parents=frozenset(),
        implicit=True,
        binds=_fields(
            assignment="left",
            operator_assignment="left",
            method_parameters="*",
            block_parameters="*",
            lambda_parameters="*",
            exception_variable="*",
            for_="pattern",
        ),
        heritage=_set("superclass"),
    ),
    "Rust": Reading(
        filler="todo!()",
        through=_set("source_file"),
        closed=_set("closure_expression macro_definition macro_invocation block"),
        attributes=_set("attribute_item"),
        blocks=_set("block"),
        typed=False,
        parameters=_set("parameters"),
        calls=_fields(call_expression="function"),
        members=_fields(
            field_expression="value field",
            scoped_identifier="path name",
            scoped_type_identifier="path name",
        ),
        inner={
            "generic_function": "function",
            "generic_type": "type",
            "bracketed_type": "",
            "parenthesized_expression": "",
            "reference_expression": "value",
        },
        selves=_set("self Self"),
        parents=frozenset(),
        passes=_set("arguments"),
        binds=_fields(
            let_declaration="pattern",
            parameter="pattern",
            closure_parameters="*",
            for_expression="pattern",
            match_pattern="*",
            let_condition="pattern",
            function_item="name",
        ),
    ),
    "PHP": Reading(
        filler='throw new \\Exception("not implemented");',
        through=_set("program"),
        closed=_set("anonymous_function arrow_function"),
        attributes=_set("attribute_list"),
        blocks=_set("compound_statement"),
        parameters=_set("formal_parameters"),
        calls=_fields(
            function_call_expression="function",
            member_call_expression="object name",
            nullsafe_member_call_expression="object name",
            scoped_call_expression="scope name",
        ),
        makes={"object_creation_expression": ""},
        constructor="__construct",
        members=_fields(qualified_name="name"),
        selves=_set("$this self static"),
        parents=_set("parent"),
        heritage=_set("base_clause"),
    ),
}
"""Language, as the `language` column spells it -> how it is taken apart. Python has a reader of its own."""
