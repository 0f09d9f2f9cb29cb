// The small languages inside values: durations, host lists, paths, near misses, expressions.
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/expression.h"
#include "templates/yaml/host_list.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"
#include "tests/catch.h"

namespace muster {
namespace {

TEST_CASE("durations are seconds, units or ISO 8601") {
  CHECK(parse_duration("90") == Milliseconds{90000});
  CHECK(parse_duration("1.5") == Milliseconds{1500});
  CHECK(parse_duration("1h30m") == Milliseconds{5400000});
  CHECK(parse_duration("2d") == Milliseconds{172800000});
  CHECK(parse_duration("500ms") == Milliseconds{500});
  CHECK(parse_duration("PT15M") == Milliseconds{900000});
  CHECK(parse_duration("P1DT2H") == Milliseconds{93600000});
  for (const char* wrong :
       {"", "-5", "5x", "h", "1h 30m", "1e400", "PT", "99999999999999", "1h30"}) {
    INFO(wrong);
    CHECK(!parse_duration(wrong));
  }
  CHECK(written_duration(Milliseconds{5400000}) == "1h30m");
  CHECK(written_duration(Milliseconds{0}) == "0s");
  CHECK(parse_duration(written_duration(Milliseconds{93784005})) == Milliseconds{93784005});
}

TEST_CASE("host lists expand with their padding, in order") {
  const auto hosts = expand_hosts("n[08-10, 2], m3 , a[1-2]b[0-1]");
  REQUIRE(hosts);
  CHECK(*hosts ==
        std::vector<std::string>{"n08", "n09", "n10", "n2", "m3", "a1b0", "a1b1", "a2b0", "a2b1"});
  for (const char* wrong : {"", "a,,b", "n[1-", "n1]", "n[2-1]", "n[x]", "a,a", "-x", "a b",
                            "n[1 2]", "a;c", "n[0-65536]", "$(id)"}) {
    INFO(wrong);
    CHECK(!expand_hosts(wrong));
  }
}

TEST_CASE("paths are sorted by what holds them") {
  const auto kind = [](const char* text) {
    const auto form = path_form(text);
    return form ? form->kind : PathKind::none;
  };
  CHECK(kind("./x") == PathKind::local);
  CHECK(kind("file:x") == PathKind::local);
  CHECK(kind("https://x/y") == PathKind::http);
  CHECK(kind("abfss://f@a/x") == PathKind::datastore);
  CHECK(kind("azureml:wasbs://c@a/x") == PathKind::datastore);
  CHECK(kind("azureml://datastores/d/paths/p") == PathKind::datastore);
  CHECK(kind("azureml:name:1") == PathKind::asset);
  CHECK(kind("azureml:name@latest") == PathKind::asset);
  CHECK(kind("azureml://jobs/j/outputs/o/paths/p") == PathKind::job_output);
  CHECK(kind("runs:/id/x") == PathKind::job_output);
  CHECK(kind("azureml://registries/r/data/d/versions/1") == PathKind::registry);
  CHECK(kind("s3://bucket/x") == PathKind::datastore);
  CHECK(kind("azureml:a b") == PathKind::none);
  CHECK(kind("azureml://elsewhere/x") == PathKind::none);
  // A name of our own before `://`, or none: no service of anybody.
  for (const char* local :
       {"x", "a/b:c", "://x", "./s3://x", "a.b://x", "$HOME/a://x", "a b://x"}) {
    CAPTURE(local);
    CHECK(kind(local) == PathKind::local);
  }
  CHECK(absolute_path("../x/./y/", "/a/b") == "/a/x/y");
  CHECK(absolute_path("/", "/a") == "/");
  CHECK(absolute_path("../../../..", "/a") == "/");
}

TEST_CASE("near misses are within two edits, and one letter has none") {
  CHECK(nearest("instance_cout", {"shm_size", "instance_count"}) == "instance_count");
  CHECK(nearest("Compute", {"compute"}) == "compute");
  CHECK(nearest("ab", {"ba", "cd"}) == "ba");
  CHECK(nearest("a", {"b"}) == "");
  CHECK(nearest("inputs.k", {"inputs.m", "inputs.k2"}) == "");
  CHECK(nearest("commando", {"commands", "command"}) == "commands");  // the first of equals
  CHECK(nearest("comand", {"demand", "command"}) == "command");       // the nearest of all
  std::vector<std::string> many(999, "other");
  many.push_back("command");
  CHECK(nearest("comand", many) == "command");
  many.insert(many.begin(), "other");
  CHECK(nearest("comand", many) == "");  // a thousand are compared
  CHECK(edit_distance("kitten", "sitting", 5) == 3);
  CHECK(edit_distance("abc", "acb", 2) == 1);
  CHECK(edit_distance("abc", "xyzw", 2) == 3);
}

TEST_CASE("expressions may have blanks and are replaced once") {
  const auto value = [](const std::string& name) -> std::optional<std::string> {
    if (name == "a") return "${{b}}";
    if (name == "b") return "wrong";
    return std::nullopt;
  };
  CHECK(expand("x ${{ a }} ${{c}} $[[y]]", value) == "x ${{b}} ${{c}} $[[y]]");
  CHECK(find_expressions("${{a} ${{").unclosed);
  const Expressions two = find_expressions("x ${{ \t a.b }}${{}} }} $[[");
  CHECK_FALSE(two.unclosed);
  REQUIRE(two.found.size() == 2);
  CHECK(two.found[0].name == "a.b");
  CHECK(two.found[0].begin == 2);
  CHECK(two.found[0].end == 14);
  CHECK(two.found[1].name.empty());
  CHECK(two.found[1].begin == 14);
  CHECK(find_expressions("${{a}} ${{b").found.size() == 1);
  CHECK(find_expressions("${{a}} ${{b").unclosed);
  CHECK(find_expressions("a }} {{b}}").found.empty());
  CHECK(optional_groups("a $[[--x ${{inputs.x}}]] $[[b]]") ==
        std::vector<std::string>{"--x ${{inputs.x}}", "b"});
}

TEST_CASE("UTF-8 is read strictly") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xC3\xA9") == 2);
  CHECK(utf8_length("\xE2\x82\xAC") == 3);
  CHECK(utf8_length("\xF0\x9F\x98\x80") == 4);
  for (const char* wrong : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80", "\xC3", "\xC3(", "\xF0\x80\x80\x80"}) {
    CHECK(utf8_length(wrong) == 0);
  }
}

}  // namespace
}  // namespace muster
