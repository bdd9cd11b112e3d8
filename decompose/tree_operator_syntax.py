"""What mutation operators need to know of each language: node types, operators and names as data, no code.

`OPERATIONS` tells it for every language but Python, in the node types of the grammars that
`decompose.grammars` loads. A node type that one grammar lacks costs nothing in a set.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Operations:
    """What can be made wrong in programs of one language.

    Attributes:
        compiled: whether a mistake in types keeps a program from being built.
        skipped: nodes that nothing is looked for in: types, patterns, attributes.
        binary, unary, update, compound, plain: node types of expressions by what they do; `plain` is `=`.
        integers, floats, characters, booleans, strings: node types of literals.
        ifs: node types with a condition and perhaps another branch.
        ternaries: the same as expressions.
        loops: node types of loops; `break` and `continue` mean the nearest one.
        switches: what `break` may mean besides.
        lambdas: node types that end what `return`, `break` and `continue` belong to.
        returns, breaks, continues, throws: node types of these.
        statements: node types of statements that may be taken out.
        blocks: node types that hold statements and may be empty.
        cases: node types whose values must differ from one another.
        indexes: node types with an index that must not be negative where it is a constant.
        calls: node types of calls -> the field of what is called.
        neutral: what a function returns instead of its value; None where its type tells.
        empty: a statement that does nothing.
        siblings: names of methods -> those to call instead.
        free: names of functions that are there without being imported -> those to call instead.
    """

    compiled: bool
    skipped: frozenset[str]
    lambdas: frozenset[str]
    blocks: frozenset[str]
    calls: dict[str, str]
    binary: frozenset[str] = frozenset(("binary_expression",))
    unary: frozenset[str] = frozenset(("unary_expression",))
    update: frozenset[str] = frozenset(("update_expression",))
    compound: frozenset[str] = frozenset(("assignment_expression",))
    plain: frozenset[str] = frozenset(("assignment_expression",))
    integers: frozenset[str] = frozenset(("integer_literal",))
    floats: frozenset[str] = frozenset(("float_literal",))
    characters: frozenset[str] = frozenset()
    booleans: frozenset[str] = frozenset(("true", "false"))
    strings: frozenset[str] = frozenset(("string_literal",))
    ifs: frozenset[str] = frozenset(("if_statement",))
    ternaries: frozenset[str] = frozenset()
    loops: frozenset[str] = frozenset(("while_statement", "for_statement", "do_statement"))
    switches: frozenset[str] = frozenset()
    returns: frozenset[str] = frozenset(("return_statement",))
    breaks: frozenset[str] = frozenset(("break_statement",))
    continues: frozenset[str] = frozenset(("continue_statement",))
    throws: frozenset[str] = frozenset(("throw_statement",))
    statements: frozenset[str] = frozenset(("expression_statement",))
    cases: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()
    neutral: str | None = None
    empty: str = ";"
    siblings: dict[str, str] = dataclasses.field(default_factory=dict)
    free: dict[str, str] = dataclasses.field(default_factory=dict)


def names(told: str) -> frozenset[str]:
    """Words apart."""
    return frozenset(told.split())


def _both(pairs: str) -> dict[str, str]:
    """Pairs `a:b` -> each name and the other one."""
    told = [(a, b) for a, _, b in (pair.partition(":") for pair in pairs.split())]
    return dict(told) | {b: a for a, b in told}


COMPARISONS_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
COMPARISONS_NEGATED = {
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "==": "!=",
    "!=": "==",
    "===": "!==",
    "!==": "===",
    "<>": "==",
    "=~": "!~",
    "!~": "=~",
}
BOOLEAN = {"&&": "||", "||": "&&", "and": "or", "or": "and"}
ARITHMETIC = {
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "%": "/",
    "**": "*",
    "<<": ">>",
    ">>": "<<",
    ">>>": "<<",
    "&": "|",
    "|": "&",
    "^": "&",
    "&^": "&",
}
SAME_EITHER_WAY = names("max min gcd lcm Max Min hypot add swap equals Equals abs_diff fmax fmin Equal")
"""Calls that do the same with their two arguments exchanged."""
FATAL = names("panic raise fail abort assert exit die unreachable todo throw Error fatal Fatal Fatalf")
"""Calls that end a function or a program: what they are told is seldom looked at."""

_C = Operations(
    compiled=True,
    skipped=names(
        "primitive_type type_identifier sized_type_specifier struct_specifier union_specifier "
        "enum_specifier type_qualifier type_descriptor parameter_list array_declarator preproc_include "
        "preproc_def preproc_function_def preproc_if preproc_ifdef attribute_specifier "
        "attribute_declaration gnu_asm_expression static_assert_declaration type_definition "
        "template_argument_list lambda_capture_specifier template_parameter_list alias_declaration "
        "using_declaration field_identifier bitfield_clause sizeof_expression alignof_expression "
        "noexcept decltype"
    ),
    lambdas=frozenset(),
    blocks=names("compound_statement"),
    calls={"call_expression": "function"},
    integers=names("number_literal"),
    floats=frozenset(),
    characters=names("char_literal"),
    ternaries=names("conditional_expression"),
    switches=names("switch_statement"),
    cases=names("case_statement"),
    free=_both(
        "floor:ceil fmin:fmax isupper:islower toupper:tolower isdigit:isalpha strchr:strrchr "
        "fminf:fmaxf sin:cos"
    ),
)
_JAVASCRIPT = Operations(
    compiled=False,
    skipped=names(
        "import_statement formal_parameters decorator regex type_annotation type_arguments "
        "type_parameters interface_declaration type_alias_declaration ambient_declaration "
        "predefined_type union_type literal_type array_type object_type generic_type "
        "type_predicate_annotation enum_declaration property_identifier"
    ),
    lambdas=names(
        "arrow_function function_expression function_declaration generator_function "
        "generator_function_declaration method_definition class class_declaration"
    ),
    blocks=names("statement_block"),
    calls={"call_expression": "function"},
    compound=names("augmented_assignment_expression"),
    integers=names("number"),
    floats=frozenset(),
    strings=names("string template_string"),
    ternaries=names("ternary_expression"),
    loops=names("while_statement for_statement for_in_statement do_statement"),
    switches=names("switch_statement"),
    neutral="null",
    siblings=_both(
        "max:min floor:ceil some:every startsWith:endsWith indexOf:lastIndexOf toUpperCase:toLowerCase "
        "push:unshift pop:shift trimStart:trimEnd padStart:padEnd sin:cos"
    )
    | {"round": "floor", "trunc": "ceil", "findIndex": "findLastIndex"},
)

OPERATIONS: dict[str, Operations] = {
    "JavaScript": _JAVASCRIPT,
    "TypeScript": _JAVASCRIPT,
    "Java": Operations(
        compiled=True,
        skipped=names(
            "integral_type floating_point_type boolean_type type_identifier generic_type array_type "
            "scoped_type_identifier type_arguments formal_parameters annotation marker_annotation "
            "modifiers pattern record_pattern type_pattern throws resource_specification "
            "type_parameters"
        ),
        lambdas=names("lambda_expression method_declaration constructor_declaration class_body"),
        blocks=names("block"),
        calls={"method_invocation": "name"},
        integers=names(
            "decimal_integer_literal hex_integer_literal octal_integer_literal binary_integer_literal"
        ),
        floats=names("decimal_floating_point_literal"),
        characters=names("character_literal"),
        ternaries=names("ternary_expression"),
        loops=names("while_statement for_statement enhanced_for_statement do_statement"),
        switches=names("switch_expression"),
        cases=names("switch_label"),
        siblings=_both(
            "max:min floor:ceil startsWith:endsWith indexOf:lastIndexOf toUpperCase:toLowerCase "
            "floorDiv:floorMod isDigit:isLetter isUpperCase:isLowerCase anyMatch:allMatch "
            "addFirst:addLast pollFirst:pollLast peekFirst:peekLast removeFirst:removeLast "
            "getFirst:getLast firstKey:lastKey floorKey:ceilingKey higherKey:lowerKey "
            "offerFirst:offerLast skip:limit"
        ),
    ),
    "Go": Operations(
        compiled=True,
        skipped=names(
            "type_identifier array_type slice_type map_type pointer_type function_type struct_type "
            "interface_type channel_type generic_type qualified_type type_arguments parameter_list "
            "type_declaration import_declaration type_case field_identifier const_declaration"
        ),
        lambdas=names("func_literal"),
        blocks=names("block statement_list"),
        calls={"call_expression": "function"},
        update=names("inc_statement dec_statement"),
        compound=names("assignment_statement"),
        plain=names("assignment_statement"),
        integers=names("int_literal"),
        characters=names("rune_literal"),
        strings=names("interpreted_string_literal raw_string_literal"),
        loops=names("for_statement"),
        switches=names("expression_switch_statement type_switch_statement select_statement"),
        throws=frozenset(),
        statements=names("expression_statement assignment_statement inc_statement dec_statement"),
        cases=names("expression_case"),
        indexes=names("index_expression slice_expression"),
        empty="",
        siblings=_both(
            "HasPrefix:HasSuffix Index:LastIndex ToUpper:ToLower Min:Max Floor:Ceil TrimLeft:TrimRight "
            "TrimPrefix:TrimSuffix IsUpper:IsLower IsDigit:IsLetter Sin:Cos"
        ),
    ),
    "C": _C,
    "C++": dataclasses.replace(
        _C,
        skipped=_C.skipped | names("placeholder_type_specifier trailing_return_type qualified_type"),
        lambdas=names("lambda_expression"),
        strings=names("string_literal raw_string_literal"),
        loops=_C.loops | names("for_range_loop"),
        siblings=_both(
            "max:min floor:ceil min_element:max_element lower_bound:upper_bound any_of:all_of "
            "front:back fmin:fmax toupper:tolower isupper:islower isdigit:isalpha sin:cos"
        ),
        free=_C.free | _both("max:min min_element:max_element lower_bound:upper_bound any_of:all_of"),
    ),
    "C#": Operations(
        compiled=True,
        skipped=names(
            "predefined_type implicit_type generic_name array_type nullable_type type_argument_list "
            "parameter_list attribute_list constant_pattern declaration_pattern type_parameter_list "
            "relational_pattern recursive_pattern tuple_type modifier array_rank_specifier "
            "using_directive"
        ),
        lambdas=names("lambda_expression anonymous_method_expression local_function_statement"),
        blocks=names("block"),
        calls={"invocation_expression": "function"},
        unary=names("prefix_unary_expression"),
        update=names("prefix_unary_expression postfix_unary_expression"),
        floats=names("real_literal"),
        characters=names("character_literal"),
        booleans=names("boolean_literal"),
        strings=names("string_literal verbatim_string_literal interpolated_string_expression"),
        ternaries=names("conditional_expression"),
        loops=names("while_statement for_statement foreach_statement do_statement"),
        switches=names("switch_statement"),
        cases=names("switch_section"),
        siblings=_both(
            "Max:Min Floor:Ceiling StartsWith:EndsWith IndexOf:LastIndexOf ToUpper:ToLower Any:All "
            "First:Last TrimStart:TrimEnd PadLeft:PadRight IsDigit:IsLetter IsUpper:IsLower "
            "OrderBy:OrderByDescending Skip:Take FirstOrDefault:LastOrDefault "
            "ToUpperInvariant:ToLowerInvariant Sin:Cos"
        ),
    ),
    "Ruby": Operations(
        compiled=False,
        skipped=names(
            "method_parameters block_parameters lambda_parameters heredoc_body heredoc_beginning regex"
        ),
        lambdas=names("lambda method singleton_method class module block do_block"),
        blocks=names("body_statement then do else block_body ensure begin"),
        calls={"call": "method"},
        binary=names("binary"),
        unary=names("unary"),
        update=frozenset(),
        compound=names("operator_assignment"),
        plain=names("assignment"),
        integers=names("integer"),
        floats=names("float"),
        strings=names("string"),
        ifs=names("if unless elsif if_modifier unless_modifier"),
        ternaries=names("conditional"),
        loops=names("while until while_modifier until_modifier for do_block block"),
        returns=names("return"),
        breaks=names("break"),
        continues=names("next"),
        throws=frozenset(),
        statements=names("assignment operator_assignment call"),
        neutral="nil",
        empty="nil",
        siblings=_both(
            "max:min first:last any?:all? start_with?:end_with? upcase:downcase floor:ceil "
            "push:unshift pop:shift index:rindex lstrip:rstrip min_by:max_by select:reject succ:pred "
            "ljust:rjust even?:odd? take:drop positive?:negative? upto:downto take_while:drop_while"
        )
        | {"round": "floor", "filter": "reject", "capitalize": "upcase"},
    ),
    "Rust": Operations(
        compiled=True,
        skipped=names(
            "primitive_type type_identifier reference_type generic_type array_type tuple_type "
            "function_type type_arguments parameters type_parameters attribute_item use_declaration "
            "match_pattern scoped_type_identifier tuple_struct_pattern tuple_pattern struct_pattern "
            "slice_pattern pointer_type dynamic_type lifetime const_item static_item macro_definition "
            "closure_parameters where_clause abstract_type field_identifier"
        ),
        lambdas=names("closure_expression function_item async_block"),
        blocks=names("block"),
        calls={"call_expression": "function"},
        update=frozenset(),
        compound=names("compound_assignment_expr"),
        characters=names("char_literal"),
        booleans=names("boolean_literal"),
        strings=names("string_literal raw_string_literal"),
        ifs=names("if_expression"),
        loops=names("while_expression for_expression loop_expression"),
        returns=names("return_expression"),
        breaks=names("break_expression"),
        continues=names("continue_expression"),
        throws=frozenset(),
        empty="",
        siblings=_both(
            "max:min floor:ceil starts_with:ends_with find:rfind to_uppercase:to_lowercase any:all "
            "first:last skip:take min_by_key:max_by_key trim_start:trim_end push_back:push_front "
            "pop_front:pop_back is_some:is_none is_ok:is_err wrapping_add:wrapping_sub "
            "saturating_add:saturating_sub checked_add:checked_sub "
            "to_ascii_uppercase:to_ascii_lowercase is_ascii_uppercase:is_ascii_lowercase sin:cos "
            "front:back min_by:max_by"
        ),
    ),
    "PHP": Operations(
        compiled=False,
        skipped=names(
            "formal_parameters primitive_type named_type optional_type union_type attribute_list "
            "heredoc nowdoc namespace_use_declaration heredoc_body nowdoc_body"
        ),
        lambdas=names(
            "anonymous_function arrow_function function_definition method_declaration "
            "class_declaration anonymous_class"
        ),
        blocks=names("compound_statement"),
        calls={
            "function_call_expression": "function",
            "member_call_expression": "name",
            "nullsafe_member_call_expression": "name",
            "scoped_call_expression": "name",
        },
        unary=names("unary_op_expression"),
        compound=names("augmented_assignment_expression"),
        integers=names("integer"),
        floats=names("float"),
        booleans=names("boolean"),
        strings=names("string encapsed_string"),
        ifs=names("if_statement else_if_clause"),
        ternaries=names("conditional_expression"),
        loops=names("while_statement for_statement foreach_statement do_statement"),
        switches=names("switch_statement"),
        throws=names("throw_expression"),
        neutral="null",
        free=_both(
            "max:min floor:ceil strtoupper:strtolower array_push:array_unshift array_pop:array_shift "
            "ltrim:rtrim strpos:strrpos str_starts_with:str_ends_with sort:rsort ksort:krsort "
            "asort:arsort usort:uasort ctype_upper:ctype_lower array_key_first:array_key_last "
            "ctype_digit:ctype_alpha sin:cos ucfirst:lcfirst array_sum:array_product"
        )
        | {"round": "floor"},
    ),
}
"""Language, as the `language` column spells it -> what can be made wrong in it."""
