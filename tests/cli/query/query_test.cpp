#include "cli/query/query.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace muster;

namespace {

nlohmann::ordered_json queried() {
  return nlohmann::ordered_json::parse(R"({
    "name": "calm_kite", "exit_code": 3, "none": null, "odd key": 1,
    "nodes": ["n1", "n2", "n3"],
    "tags": {"a": "1", "b": "2"},
    "jobs": [
      {"name": "x", "state": "Running", "n": 2, "nodes": ["a", "b"]},
      {"name": "y", "state": "Failed", "n": 1, "nodes": ["c"]},
      {"name": "z", "state": "Running", "n": 3, "step": 7, "nodes": []}]})");
}

std::string result_of(const std::string& text) {
  const auto query = parse_query(text);
  return query ? (*query)(queried()).dump() : "error: " + query.error().message;
}

struct QueryCase {
  const char* query;
  const char* result;
};

const QueryCase query_cases[] = {
    // Fields and elements.
    {"name", R"("calm_kite")"},
    {"@.name", R"("calm_kite")"},
    {R"("odd key")", "1"},
    {"nodes[0]", R"("n1")"},
    {"nodes[-1]", R"("n3")"},
    {"nodes.1", R"("n2")"},
    {"nodes[9]", "null"},
    {"nmae.x[0].y", "null"},
    {"jobs[1].name", R"("y")"},
    {" jobs [1] . name ", R"("y")"},
    // Each element, a slice, values, those that fit.
    {"jobs[].name", R"(["x","y","z"])"},
    {"jobs[*].name", R"(["x","y","z"])"},
    {"jobs[].step", "[7]"},
    {"jobs[].nodes", R"([["a","b"],["c"],[]])"},
    {"jobs[].nodes[]", R"(["a","b","c"])"},
    {"jobs[].nodes[0]", R"(["a","c"])"},
    {"jobs[*].nodes[*]", R"([["a","b"],["c"],[]])"},
    {"nodes[1:]", R"(["n2","n3"])"},
    {"nodes[:-1]", R"(["n1","n2"])"},
    {"tags.*", R"(["1","2"])"},
    {"jobs[?state=='Running'].name", R"(["x","z"])"},
    {"jobs[?state!='Running' || n > `2`].name", R"(["y","z"])"},
    {"jobs[?state=='Running' && n<3].name", R"(["x"])"},
    {"jobs[?!step].name", R"(["x","y"])"},
    {"jobs[?contains(nodes, 'c')].name | [0]", R"("y")"},
    {"jobs[?name >= 'y'].n", "[1,3]"},
    {"jobs[?(state=='Failed')].n", "[1]"},
    {"name[]", "null"},
    // Objects and lists made of several parts.
    {"{a: name, b: exit_code}", R"({"a":"calm_kite","b":3})"},
    {"jobs[].{job: name, first: nodes[0]}",
     R"([{"job":"x","first":"a"},{"job":"y","first":"c"},{"job":"z","first":null}])"},
    {"jobs[].[name, n]", R"([["x",2],["y",1],["z",3]])"},
    {"[name, exit_code]", R"(["calm_kite",3])"},
    // Operators and functions.
    {"none || 'nothing'", R"("nothing")"},
    {"name && exit_code", "3"},
    {"exit_code == `3`", "true"},
    {"jobs | length(@)", "3"},
    {"length(jobs[?state=='Running'])", "2"},
    {"length(name)", "9"},
    {"keys(tags)", R"(["a","b"])"},
    {"values(tags)", R"(["1","2"])"},
    {"join(',', nodes)", R"("n1,n2,n3")"},
    {"starts_with(name, 'calm')", "true"},
    {"ends_with(name, 'calm')", "false"},
    {"sort(jobs[].n)", "[1,2,3]"},
    {"sort_by(jobs, &n)[].name", R"(["y","x","z"])"},
    {"reverse(sort_by(jobs, &step))[0].name", R"("z")"},
    {"length(exit_code)", "null"},
    {"length(tags)", "2"},
    {"sort([none, 'b', exit_code, 'a', `2`, tags])", R"([null,{"a":"1","b":"2"},2,3,"a","b"])"},
    {"sort(jobs[].step)", "[7]"},
    {"sort_by(jobs, &state)[].name", R"(["y","x","z"])"},
    {"reverse(nodes)", R"(["n3","n2","n1"])"},
    {"join(',', jobs[].n)", "null"},
    {"contains(name, 'kite')", "true"},
    {"contains(name, 'kites')", "false"},
    // A function of what it is not for.
    {"keys(nodes)", "null"},
    {"keys(name)", "null"},
    {"values(nodes)", "null"},
    {"contains(exit_code, 'a')", "null"},
    {"starts_with(exit_code, 'a')", "null"},
    {"ends_with(name, exit_code)", "null"},
    {"join(exit_code, nodes)", "null"},
    {"sort(name)", "null"},
    {"reverse(name)", "null"},
    // What is no query.
    {"", "error: expected a name at the end"},
    {"jobs[", "error: expected a number, '*', '?' or ']' at the end"},
    {"jobs[?state=='Running'", "error: expected ']' at the end"},
    {"jobs[?state='Running']", "error: expected ']' at '='Running']'"},
    {"name name", "error: expected an operator at 'name'"},
    {"'open", "error: expected a closing ' at the end"},
    {"nope(name)", "error: there is no function 'nope'"},
    {"length()", "error: length() takes 1 argument(s)"},
    {"a..b", "error: expected a name at '.b'"},
};

}  // namespace

TEST_CASE("queries give what JMESPath gives") {
  for (const QueryCase& one : query_cases) {
    CAPTURE(one.query);
    CHECK(result_of(one.query) == one.result);
  }
}

TEST_CASE("a hostile query is refused, not followed into the ground") {
  CHECK_THAT(result_of(std::string(900, '(')), ContainsSubstring("nested more than"));
  CHECK_THAT(result_of(std::string(900, '!') + "a"), ContainsSubstring("nested more than"));
  CHECK_THAT(result_of(std::string(2000, 'a')), ContainsSubstring("longer than"));
  std::string chain = "a";
  while (chain.size() < 990) chain += ".a";
  CHECK(result_of(chain) == "null");
  std::string projections = "a";
  while (projections.size() < 990) projections += "[*]";
  CHECK(result_of(projections) == "null");
}
