"""What definitions look like in each language's syntax tree: node types as data, no code.

Node types are those of the grammars that `decompose.grammars` loads. A type that a grammar does not have
is an error when the language is first used (`decompose.definitions`), so a renamed one cannot go unseen.
"""

from __future__ import annotations

import dataclasses

CLASS_LIKE = frozenset(
    (
        *("class", "struct", "interface", "trait", "enum", "union", "module", "namespace", "object", "impl"),
        *("record", "macro", "type"),
    )
)
"""Kinds that hold other definitions; a function directly inside of one, a namespace or module excepted, is
a method."""

_FUNCTION_VALUES = "arrow_function function_expression generator_function"


@dataclasses.dataclass(frozen=True)
class Syntax:
    """Node types of one language.

    Attributes:
        comment: what begins a comment that ends with its line.
        definitions: node type -> kind.
        named_values: node types that give a function or class expression (`values`) its name.
        values: node types of such expressions, which the field named here holds.
        wrappers: node types that belong to the single definition which they hold.
        attached: node types that belong to the definition on the line below them.
        imports: node types that bring in names from elsewhere.
        opaque: what a statement begins with that brings in names without telling which.
        containers: node types with one statement or member a line, any of which may be left out.
        lists: node types of long literals, whose elements may be left out where they end in a separator.
        bodies: node types of bodies that no field names.
        unnamed: node type -> name of a definition whose syntax has none.
        constructors: names of methods that make an instance.
        separator: what stands between the parts of a qualified name.
        filler: a statement for a body that must have one; None when a body may be empty.
    """

    comment: str
    definitions: dict[str, str]
    containers: frozenset[str]
    attached: frozenset[str] = frozenset(("comment",))
    named_values: tuple[tuple[str, str], ...] = ()
    values: tuple[str, ...] = ()
    wrappers: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    opaque: tuple[str, ...] = ()
    lists: frozenset[str] = frozenset()
    bodies: frozenset[str] = frozenset()
    unnamed: dict[str, str] = dataclasses.field(default_factory=dict)
    constructors: frozenset[str] = frozenset()
    separator: str = "."
    filler: str | None = None


def _kinds(**kinds: str) -> dict[str, str]:
    """Node type -> kind, from kind -> node types."""
    return {node: kind.rstrip("_") for kind, nodes in kinds.items() for node in nodes.split()}


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_JAVASCRIPT = Syntax(
    comment="//",
    definitions=_kinds(
        function="function_declaration generator_function_declaration",
        class_="class_declaration",
        method="method_definition",
    ),
    named_values=(
        ("variable_declarator", "value"),
        ("assignment_expression", "right"),
        ("pair", "value"),
        ("field_definition", "value"),
    ),
    values=(*_FUNCTION_VALUES.split(), "class"),
    wrappers=_set("export_statement lexical_declaration variable_declaration expression_statement"),
    attached=_set("comment decorator"),
    imports=_set("import_statement"),
    containers=_set("program class_body statement_block switch_body switch_case switch_default"),
    lists=_set("object array arguments"),
    constructors=_set("constructor"),
)

_C = Syntax(
    comment="//",
    definitions=_kinds(
        function="function_definition",
        struct="struct_specifier",
        union="union_specifier",
        enum="enum_specifier",
    ),
    wrappers=_set("type_definition linkage_specification"),
    imports=_set("preproc_include"),
    opaque=("#include",),
    containers=_set(
        "translation_unit compound_statement case_statement field_declaration_list enumerator_list "
        "declaration_list preproc_if preproc_ifdef preproc_else preproc_elif"
    ),
    lists=_set("initializer_list"),
)

SYNTAX: dict[str, Syntax] = {
    "Python": Syntax(
        comment="#",
        definitions=_kinds(function="function_definition", class_="class_definition"),
        wrappers=_set("decorated_definition"),
        imports=_set("import_statement import_from_statement future_import_statement"),
        containers=_set("module block"),
        lists=_set("list dictionary set tuple argument_list"),
        constructors=_set("__init__ __new__"),
        filler="...",
    ),
    "JavaScript": _JAVASCRIPT,
    "TypeScript": dataclasses.replace(
        _JAVASCRIPT,
        definitions={
            **_JAVASCRIPT.definitions,
            **_kinds(
                class_="abstract_class_declaration",
                interface="interface_declaration",
                enum="enum_declaration",
                namespace="internal_module module",
                type="type_alias_declaration",
                function="function_signature",
                method="method_signature abstract_method_signature",
            ),
        },
        named_values=(*_JAVASCRIPT.named_values[:3], ("public_field_definition", "value")),
        wrappers=_JAVASCRIPT.wrappers | _set("ambient_declaration"),
        imports=_set("import_statement import_alias"),
        containers=_JAVASCRIPT.containers | _set("interface_body enum_body object_type"),
    ),
    "Java": Syntax(
        comment="//",
        definitions=_kinds(
            class_="class_declaration",
            interface="interface_declaration annotation_type_declaration",
            enum="enum_declaration",
            record="record_declaration",
            method="method_declaration",
            constructor="constructor_declaration compact_constructor_declaration",
            initializer="static_initializer",
        ),
        attached=_set("line_comment block_comment"),
        imports=_set("import_declaration"),
        containers=_set(
            "program class_body interface_body enum_body enum_body_declarations annotation_type_body block "
            "constructor_body switch_block switch_block_statement_group"
        ),
        lists=_set("array_initializer"),
        unnamed={"static_initializer": "static"},
    ),
    "Go": Syntax(
        comment="//",
        definitions=_kinds(
            function="function_declaration", method="method_declaration", type="type_spec type_alias"
        ),
        wrappers=_set("type_declaration"),
        imports=_set("import_spec"),
        containers=_set(
            "source_file statement_list field_declaration_list import_spec_list var_spec_list "
            "const_declaration expression_switch_statement type_switch_statement select_statement "
            "interface_type"
        ),
        lists=_set("literal_value"),
    ),
    "C": _C,
    "C++": dataclasses.replace(
        _C,
        definitions={
            **_C.definitions,
            **_kinds(
                class_="class_specifier", namespace="namespace_definition", concept="concept_definition"
            ),
        },
        wrappers=_C.wrappers | _set("template_declaration"),
        imports=_set("preproc_include using_declaration namespace_alias_definition"),
        opaque=("#include", "using namespace"),
        constructors=frozenset(),
        separator="::",
    ),
    "C#": Syntax(
        comment="//",
        definitions=_kinds(
            namespace="namespace_declaration file_scoped_namespace_declaration",
            class_="class_declaration",
            struct="struct_declaration",
            interface="interface_declaration",
            enum="enum_declaration",
            record="record_declaration",
            type="delegate_declaration",
            method="method_declaration operator_declaration conversion_operator_declaration "
            "destructor_declaration",
            constructor="constructor_declaration",
            property="property_declaration event_declaration indexer_declaration",
            function="local_function_statement",
        ),
        imports=_set("using_directive"),
        opaque=("using",),
        containers=_set(
            "compilation_unit declaration_list block switch_body switch_section accessor_list "
            "enum_member_declaration_list preproc_if preproc_else preproc_elif"
        ),
        lists=_set("initializer_expression"),
        bodies=_set("accessor_list arrow_expression_clause"),
        unnamed={
            "indexer_declaration": "this",
            "operator_declaration": "operator",
            "conversion_operator_declaration": "operator",
        },
    ),
    "Ruby": Syntax(
        comment="#",
        definitions=_kinds(method="method singleton_method", class_="class singleton_class", module="module"),
        containers=_set("program body_statement then else do block_body"),
        opaque=("require", "load "),
        lists=_set("array hash"),
        unnamed={"singleton_class": "self"},
        constructors=_set("initialize"),
    ),
    "Rust": Syntax(
        comment="//",
        definitions=_kinds(
            function="function_item function_signature_item",
            struct="struct_item",
            enum="enum_item",
            union="union_item",
            trait="trait_item",
            impl="impl_item",
            module="mod_item",
            macro="macro_definition",
        ),
        attached=_set("line_comment block_comment attribute_item"),
        imports=_set("use_declaration extern_crate_declaration"),
        containers=_set(
            "source_file declaration_list block match_block field_declaration_list enum_variant_list"
        ),
        lists=_set("array_expression"),
        separator="::",
    ),
    "PHP": Syntax(
        comment="//",
        definitions=_kinds(
            namespace="namespace_definition",
            class_="class_declaration",
            interface="interface_declaration",
            trait="trait_declaration",
            enum="enum_declaration",
            method="method_declaration",
            function="function_definition",
        ),
        named_values=(("assignment_expression", "right"),),
        values=("anonymous_function", "arrow_function"),
        wrappers=_set("expression_statement"),
        imports=_set("namespace_use_declaration"),
        opaque=("require", "include"),
        containers=_set(
            "program declaration_list compound_statement switch_block case_statement default_statement "
            "enum_declaration_list"
        ),
        lists=_set("array_creation_expression match_block"),
        constructors=_set("__construct"),
    ),
    "Kotlin": Syntax(
        comment="//",
        definitions=_kinds(
            class_="class_declaration",
            object="object_declaration companion_object",
            function="function_declaration",
            constructor="secondary_constructor",
            initializer="anonymous_initializer",
            type="type_alias",
        ),
        attached=_set("line_comment block_comment"),
        imports=_set("import"),
        containers=_set("source_file class_body enum_class_body block"),
        bodies=_set("function_body class_body enum_class_body block"),
        unnamed={
            "companion_object": "Companion",
            "secondary_constructor": "constructor",
            "anonymous_initializer": "init",
        },
    ),
    "Scala": Syntax(
        comment="//",
        definitions=_kinds(
            class_="class_definition",
            object="object_definition",
            trait="trait_definition",
            enum="enum_definition",
            function="function_definition function_declaration",
            type="type_definition",
        ),
        attached=_set("comment block_comment"),
        imports=_set("import_declaration"),
        containers=_set("compilation_unit template_body block indented_block enum_body case_block"),
        constructors=_set("this"),
    ),
    "Swift": Syntax(
        comment="//",
        definitions=_kinds(
            class_="class_declaration",
            interface="protocol_declaration",
            function="function_declaration protocol_function_declaration",
            constructor="init_declaration",
            method="deinit_declaration subscript_declaration",
            type="typealias_declaration",
        ),
        attached=_set("comment multiline_comment"),
        imports=_set("import_declaration"),
        opaque=("import",),
        containers=_set("source_file class_body enum_class_body protocol_body statements switch_statement"),
        lists=_set("array_literal dictionary_literal"),
        bodies=_set("computed_property"),
        unnamed={
            "init_declaration": "init",
            "deinit_declaration": "deinit",
            "subscript_declaration": "subscript",
        },
    ),
}
SYNTAX["TSX"] = SYNTAX["TypeScript"]
"""Language or dialect -> its node types, in the spelling of the `language` column."""
