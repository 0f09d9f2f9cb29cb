// Values that Azure ML reads in another way than they look: refused, read alike, or told.
#include "templates/yaml/value.h"

#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string lab_head = "environment: azureml:host\ncompute: lab\n";

std::string findings_about(const std::string& text) {
  return printed(read_job("command: x\n" + lab_head + text).findings);
}

TEST_CASE("a number with a leading zero or an exponent is no integer, and both readings are told") {
  CHECK_THAT(findings_about("resources: {instance_count: 010}\n"),
             ContainsSubstring("resources.instance_count: expected an integer without a leading 0, "
                               "got '010'; write 8 or 10"));
  CHECK_THAT(findings_about("limits: {timeout: 0100}\n"),
             ContainsSubstring("limits.timeout: expected a duration without a leading 0, got "
                               "'0100'; write 64 or 100"));
  CHECK_THAT(findings_about("resources: {instance_count: 1e1}\n"),
             ContainsSubstring("expected an integer, got '1e1'; write 10"));
  CHECK_THAT(findings_about("limits: {timeout: 1e1}\n"), ContainsSubstring("got '1e1'"));
  CHECK_THAT(findings_about("resources: {instance_count: 1.5}\n"), ContainsSubstring("got '1.5'"));
  for (const char* plain : {"7", "07", "'010'", "2.0"}) {
    INFO(plain);
    CHECK(findings_about(std::string("resources: {instance_count: ") + plain + "}\n"
                      "distribution: {type: pytorch}\n") == "");
  }
}

TEST_CASE("whole numbers are whole, up to what a double holds exactly") {
  const auto most = [](const std::string& port) {
    return findings_about("services: {s: {type: custom, port: " + port + "}}\n");
  };
  CHECK_THAT(most("80.5"), ContainsSubstring("expected an integer, got '80.5'"));
  CHECK_THAT(most("9007199254740992"), ContainsSubstring("expected at most 65535, got 9007199"));
  CHECK_THAT(most("9007199254740994"), ContainsSubstring("expected an integer, got '9007199"));
  CHECK_THAT(most("-9007199254740994"), ContainsSubstring("expected an integer, got '-9007199"));
  CHECK_THAT(most("-1"), ContainsSubstring("expected 1 or more, got -1"));
}

TEST_CASE("single braces around an input, output or parameter are read as Azure ML does") {
  const JobFile job = read_job(
      "command: x {inputs.a} ${inputs.a} {{inputs.a}} {other.a} {inputs.} {outputs.o} "
      "${{inputs.a}}\n" +
      lab_head + "inputs: {a: 1}\noutputs: {o: }\n");
  CHECK(job.spec.command ==
        "x 1 ${inputs.a} {{inputs.a}} {other.a} {inputs.} \x01outputs.o\x02 1");
  CHECK_THAT(printed(job.findings),
             ContainsSubstring("job.yml:1:10: warning: command: '{inputs.a}' is read as "
                               "'${{inputs.a}}', as Azure ML does; write that"));
  CHECK_THAT(printed(read_job("name: c\nversion: 1\ncommand: x {inputs.a}\n" + lab_head +
                              "type: command\ninputs: {b: {type: string}}\n")
                         .findings),
             ContainsSubstring("'${{inputs.a}}' is neither an input nor an output"));
}

TEST_CASE("a value that Azure ML reads as another one keeps its text, with a note that says so") {
  for (const auto& [text, reading] : std::map<std::string, std::string>{
           {"0777", "Azure ML passes 511"},     {"0x10", "Azure ML passes 16"},
           {"0b101", "Azure ML passes 5"},      {"1_000", "Azure ML passes 1000"},
           {"12:30:45", "Azure ML passes 45045"}, {"1.10", "Azure ML passes 1.1"},
           {"-012", "Azure ML passes -10"},     {"+3", "Azure ML passes 3"},
           {"1.0e-5", "Azure ML passes 1e-05"}, {"100000.", "Azure ML passes 100000.0"},
           {"2024-01-05", "Azure ML reads a date"}}) {
    INFO(text);
    const JobFile job = read_job("command: x ${{inputs.a}}\n" + lab_head + "inputs: {a: " + text +
                                 "}\nenvironment_variables: {V: " + text + "}\n");
    CHECK(job.spec.command == "x " + text);
    CHECK(job.spec.environment_variables.at("V") == text);
    CHECK_THAT(printed(job.findings), ContainsSubstring("inputs.a: " + reading + "; quote it"));
    CHECK_THAT(printed(job.findings),
               ContainsSubstring("environment_variables.V: " + reading + "; quote it"));
  }
}

TEST_CASE("a word that YAML 1.1 takes for a boolean reaches the command as Azure ML writes it") {
  for (const auto& [text, passed] : std::map<std::string, std::string>{
           {"no", "False"}, {"NO", "False"}, {"on", "True"}, {"yes", "True"}, {"Yes", "True"},
           {"off", "False"}, {"Off", "False"}, {"true", "True"}, {"y", "y"}, {"n", "n"},
           {"'no'", "no"}, {"'yes'", "yes"}, {"nope", "nope"}}) {
    INFO(text);
    const JobFile job =
        read_job("command: x ${{inputs.a}}\n" + lab_head + "inputs: {a: " + text + "}\n");
    CHECK(job.spec.command == "x " + passed);
    CHECK(printed(job.findings) == "");
  }
}

TEST_CASE("a value that is the same in Azure ML has no note") {
  for (const char* same : {"text", "1", "0", "-5", "0.1", "1.0", "3e-4", "1e5", "10.0.0.1", "1:2:x",
                           "00:11:22", "2024-13", "0x", "_1", "08", "1.2e3", "v1.10", "", "-",
                           "+"}) {
    INFO(same);
    CHECK(!other_in_azure(same));
  }
  CHECK(findings_about("inputs: {a: 1e-4, b: '0777', c: \"1.10\", d: 5}\n") == "");
}

TEST_CASE("null that is written out is told, an empty value is not") {
  CHECK_THAT(findings_about("environment_variables: {A: null}\n"),
             ContainsSubstring("environment_variables.A: 'null' is no value, not text; quote it"));
  CHECK_THAT(findings_about("inputs: {a: ~}\n"), ContainsSubstring("inputs.a: '~' is no value"));
  CHECK(findings_about("environment_variables:\n  A:\n  nullable: x\n") == "");
  CHECK(findings_about("environment_variables: {A: 'null', B: }\n") == "");
}

}  // namespace
}  // namespace muster
