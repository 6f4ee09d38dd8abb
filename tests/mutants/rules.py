"""The planted bugs of the rules that rows must keep."""

from __future__ import annotations

from tests.mutants.planted import TABLE, Bug

RULES = TABLE + "rows/rules.py"
CONSTRAINTS = TABLE + "alter/constraints.py"
TESTS = ("tests/table/test_constraints.py",)
GENERATED = TABLE + "rows/generated.py"
GENERATED_TESTS = ("tests/table/test_generated.py",)

CLAIMS = "indextables/log/commit/claims.py"
IDENTITY_TESTS = ("tests/table/test_identity.py",)
CLAIM_TESTS = ("tests/sim/test_claims.py",)

BUGS = [
    Bug(
        "a claim that took for ever is used, though its name may have been another one's",
        CLAIMS,
        "        if answer is PutAnswer.CREATED and not late:\n",
        "        if answer is PutAnswer.CREATED:\n",
        CLAIM_TESTS,
    ),
    Bug(
        "a claim without an answer is used",
        CLAIMS,
        "        if answer is PutAnswer.CREATED and not late:\n",
        "        if answer is not PutAnswer.REFUSED and not late:\n",
        CLAIM_TESTS,
    ),
    Bug(
        "the newest claim is deleted with the others",
        CLAIMS,
        "for meta in listing[:-1] if now_ms",
        "for meta in listing if now_ms",
        IDENTITY_TESTS,
    ),
    Bug(
        "claims are deleted at once",
        CLAIMS,
        "if now_ms - meta.modified_ms > _KEPT_MS]",
        "if now_ms]",
        IDENTITY_TESTS,
    ),
    Bug(
        "a value is taken for a column that is always generated",
        TABLE + "rows/rows.py",
        "            if identity is not None and identity.always and not has_numbers:\n",
        "            if False:\n",
        IDENTITY_TESTS,
    ),
    Bug(
        "a star changes the numbers of rows",
        TABLE + "change/clauses.py",
        'if clause.action == "update" or told.always',
        "if told.always and False",
        IDENTITY_TESTS,
    ),
    Bug(
        "a repaired table counts from the start",
        "indextables/log/care/repair.py",
        "        reserve(env, field, taken)\n",
        "        pass\n",
        IDENTITY_TESTS,
    ),
    Bug(
        "a converted table does not go on behind the numbers of its source",
        TABLE + "convert/verb.py",
        "// identity.step + 1)",
        "// identity.step)",
        IDENTITY_TESTS,
    ),
    Bug(
        "what a batch left of a claim is given again to the next",
        TABLE + "writing/numbering.py",
        "            self._next += taken\n",
        "",
        IDENTITY_TESTS,
    ),
    Bug(
        "a value that data brings for a generated column is taken as it is",
        GENERATED,
        "    if same.true_count == len(same):\n",
        "    if True:\n",
        GENERATED_TESTS,
    ),
    Bug(
        "a generated column keeps its value when its row changes",
        GENERATED,
        "    if not gone:\n        return rows\n",
        "    return rows\n",
        GENERATED_TESTS,
    ),
    Bug(
        "a predicate on the base column leaves out the last partition that it is about",
        "indextables/table/read/implied.py",
        '"<": "<=", "<=": "<=", ">": ">=", ">=": ">="}\n\n\ndef with_implied',
        '"<": "<", "<=": "<=", ">": ">", ">=": ">="}\n\n\ndef with_implied',
        GENERATED_TESTS,
    ),
    Bug(
        "an expression that falls prunes as if it rose",
        "indextables/table/read/implied.py",
        'or (op != "=" and not _never_falls(node)):',
        "or False:",
        GENERATED_TESTS,
    ),
    Bug(
        "only the first batch of a write is checked",
        TABLE + "rows/rows.py",
        "            for batch in self.batches:\n                check(batch)\n",
        "            for place, batch in enumerate(self.batches):\n                _ = place or check(batch)\n",
        TESTS,
    ),
    Bug(
        "null passes a constraint",
        RULES,
        "        if kept.true_count == len(kept):\n",
        "        if kept.true_count + kept.null_count == len(kept):\n",
        TESTS,
    ),
    Bug(
        "a constraint is checked by append alone",
        TABLE + "writing/splits.py",
        "    rows = rows if check is None else rows.checked_by(check)\n",
        "    rows = rows.checked_by(check) if check and target.schema.names[-1] != '_row_id' else rows\n",
        TESTS,
    ),
    Bug(
        "a task of Spark does not check",
        "indextables/spark/source/write_task.py",
        "    return write_adds(env, target, fitted",
        "    target = msgspec.structs.replace(target, rules=type(target.rules)())\n"
        "    return write_adds(env, target, fitted",
        ("tests/spark/test_rule_tasks.py",),
    ),
    Bug(
        "rows that are there and null are taken for rows that keep a new constraint",
        TABLE + "read/broken.py",
        "where=Or((Not(node), IsNull(node)))",
        "where=Not(node)",
        TESTS,
    ),
    Bug(
        "rows that come while a constraint is added are not looked at",
        TABLE + "alter/verb.py",
        "    looks = isinstance(wish, AddConstraint) or _forbids_null(snapshot, wish)\n",
        "    looks = _forbids_null(snapshot, wish)\n",
        TESTS,
    ),
    Bug(
        "an error shows what a personal column holds",
        RULES,
        'if not personal or name.lower() in said else "(personal)"',
        "",
        TESTS,
    ),
    Bug(
        "a library that knows no constraints may write",
        CONSTRAINTS,
        "    raised = with_feature(protocol, CHECK_CONSTRAINTS)\n",
        "    raised = protocol\n",
        TESTS,
    ),
]
