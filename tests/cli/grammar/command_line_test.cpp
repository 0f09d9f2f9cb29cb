#include "cli/grammar/command_line.h"

#include <sstream>

#include "cli/verbs/verbs.h"
#include "tests/catch.h"

using namespace muster;

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

struct Case {
  const char* line;
  const char* verb;  // empty: refused or help
  int exit_code;
  const char* says;  // part of the text
};

const Case cases[] = {
    {"run job.yml", "run", 0, ""},
    {"run job.yml --set a.b=c --set d=e --name x -d", "run", 0, ""},
    {"run --set a.b=c job.yml -o json --query name", "run", 0, ""},
    {"run", "", 2, "FILE is required"},
    {"run a.yml b.yml c.yml", "", 2, "unexpected 'b.yml'"},
    {"run a.yml -o jsno", "", 2, "expected one of: json"},
    {"run a.yml --help", "", 0, "Usage: muster run"},
    {"rnu a.yml", "", 2, "did you mean 'run'"},
    {"", "", 2, "run"},
    {"shell --help", "", 2, "unknown verb 'shell'"},
    {"help shell", "", 2, "unknown verb 'shell'"},
    {"rnu a.yml --help", "", 2, "did you mean 'run'"},
    {"job lsit --help", "", 2, "unknown verb 'lsit'; did you mean 'list'?"},
    {"run a.yml b.yml --help", "", 0, "Usage: muster run"},
    {"health h01 --help", "", 0, "Usage: muster health"},
    {"run a.yml --set nothing", "", 2, "'nothing': expected --set <path>=<value>"},
    {"plan a.yml --set =x", "", 2, "expected --set <path>=<value>"},
    {"validate a.yml --set a..b=x", "", 2, "the path has an empty part"},
    {"submit a.yml --set .a=x", "", 2, "the path has an empty part"},
    {"job create -f a.yml --set a=b c", "", 2, "'c': expected --set <path>=<value>"},
    {"run a.yml --set a.b=", "run", 0, ""},
    {"--help", "", 0, "Exit codes"},
    {"--frobnicate", "", 2, "unknown option '--frobnicate'"},
    {"run a.yml --nmae x", "", 2, "unknown option '--nmae'; did you mean '--name'?"},
    {"help", "", 0, "Exit codes"},
    {"help job list", "", 0, "Usage: muster job list"},
    {"-o json list", "list", 0, ""},
    {"validate a.yml b.yml c.yml", "validate", 0, ""},
    {"plan a.yml --cluster x.yml --cluster y.yml", "plan", 0, ""},
    {"status", "status", 0, ""},
    {"status job", "status", 0, ""},
    {"status job --watch", "status", 0, ""},
    {"list --query jobs[", "", 2, "--query: 'jobs[': expected a number"},
    {"logs job -f --rank 3 --attempt 0 --tail 10 --node n1", "logs", 0, ""},
    {"logs job --rank -1", "", 2, "0 or more, got '-1'"},
    {"logs job --rank x", "", 2, "--rank: expected a number"},
    {"cancel job --grace 1h30m --wait", "cancel", 0, ""},
    {"cancel job --grace soon", "", 2, "invalid duration"},
    {"resume job --from 100", "resume", 0, ""},
    {"exec job --rank 1 -- ls -l --rank", "exec", 0, ""},
    {"exec job", "", 2, "COMMAND is required, after JOB"},
    {"exec -t job --node 1 -- vi -t", "exec", 0, ""},
    {"ssh job --node 1", "ssh", 0, ""},
    {"ssh", "", 2, "JOB is required"},
    {"forward job 8888 0:9 /a/b.sock --rank 1", "forward", 0, ""},
    {"forward --stdio job --node 0 ssh", "forward", 0, ""},
    {"ssh-config job", "ssh-config", 0, ""},
    {"job connect-ssh -n job -i 1", "job connect-ssh", 0, ""},
    {"run a.yml --name", "", 2, "--name needs a value"},
    {"run a.yml --name x --name y", "", 2, "--name is given more than once"},
    {"download job --all -p out --output-name model", "download", 0, ""},
    {"list -r 5 --status running --since 2d --tag a=b --all-results", "list", 0, ""},
    {"list --status nonsense", "", 2, "expected one of"},
    {"init", "init", 0, ""},
    {"init pytorch -o job.yml", "init", 0, ""},
    {"drain n1 --reason fan", "drain", 0, ""},
    {"drain n1", "", 2, "--reason is required"},
    {"undrain n1", "undrain", 0, ""},
    {"health", "health", 0, ""},
    {"health run --phase prolog --check gpu.* --check ib.* --all", "health run", 0, ""},
    {"health --profile x --root / -o nagios", "health", 0, ""},
    {"health --root /nowhere", "", 2, "/nowhere"},
    {"health -o jsonl --state s --prometheus-file a.prom", "health", 0, ""},
    {"health --slurm --hook epilog --idle --scontrol /opt/scontrol", "health", 0, ""},
    {"health --phase lunch", "", 2, "expected one of: prolog"},
    {"health --hook x", "", 2, "expected one of: health"},
    {"health -o xml", "", 2, "expected one of: json"},
    {"list -o nagios", "", 2, "expected one of: json"},
    {"health h01 h[02-04] --timeout 5s -o json", "health", 0, ""},
    {"health run learn --target lab", "health run", 0, ""},
    {"health h01 --timeout soon", "", 2, "invalid duration"},
    {"health --profile x learn", "", 2, "write --profile after 'health learn'"},
    {"health --only-show-errors learn", "health learn", 0, ""},
    {"health learn --name x -o p.yml", "health learn", 0, ""},
    {"health record d", "health record", 0, ""},
    {"health record", "", 2, "DIR is required"},
    {"health checks --profile x -o json", "health checks", 0, ""},
    {"health profiles ND96asr_v4", "health profiles", 0, ""},
    {"completion bash", "completion", 0, ""},
    {"job create -f a.yml --set a=b c=d -s -n x -g group -w space", "job create", 0, ""},
    {"job create", "", 2, "--file is required"},
    {"job", "", 2, "subcommand"},
    {"job lsit", "", 2, "unknown verb 'lsit'; did you mean 'list'?"},
    {"job show -n x -e", "job show", 0, ""},
    {"job list --archived-only -r 3", "job list", 0, ""},
    {"job stream --name x", "job stream", 0, ""},
    {"job cancel -n x --no-wait", "job cancel", 0, ""},
    {"job download -n x --all", "job download", 0, ""},
    {"job archive -n x", "job archive", 0, ""},
    {"job restore -n x", "job restore", 0, ""},
    {"job update -n x --set tags.a=b --remove tags.c", "job update", 0, ""},
    {"job validate -f x.yml --for azure", "job validate", 0, ""},
    {"job render -f x.yml --for azure", "job render", 0, ""},
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("every verb takes the arguments that it is documented to take") {
  for (const Case& one : cases) {
    CAPTURE(one.line);
    CommandLine line;
    add_verbs(line);
    const ParsedLine parsed = line.parse(words_of(one.line));
    CHECK(parsed.verb == one.verb);
    CHECK(static_cast<bool>(parsed.action) == (*one.verb != '\0'));
    CHECK(parsed.exit_code == one.exit_code);
    CHECK_THAT(parsed.text, ContainsSubstring(one.says));
  }
}

TEST_CASE("what was typed wrong is repeated without its control characters") {
  CommandLine line;
  add_verbs(line);
  CHECK(line.parse({"r\x1b[31mun"}).text.find('\x1b') == std::string::npos);
}

TEST_CASE("options of other tools and of the past are accepted and reported as ignored") {
  CommandLine line;
  add_verbs(line);
  const ParsedLine parsed = line.parse(words_of("job show -n x -g group"));
  CHECK(parsed.ignored == std::vector<std::string>{"--resource-group"});
  const ParsedLine flags = line.parse(words_of("health pairs --nccl n1 --tcp"));
  REQUIRE(flags.action);
  CHECK(flags.ignored == std::vector<std::string>{"--nccl"});
}

TEST_CASE("old names are known to the help, too") {
  CommandLine line;
  add_verbs(line);
  const ParsedLine parsed = line.parse(words_of("help health active"));
  CHECK(parsed.exit_code == 0);
  CHECK_THAT(parsed.text, ContainsSubstring("muster health benchmark"));
}

TEST_CASE("shared options are read from any verb") {
  CommandLine line;
  add_verbs(line);
  line.parse(words_of("list -o YAML --color never --only-show-errors --cluster a --cluster b"));
  CHECK(line.common().output == OutputFormat::yaml);
  CHECK(line.common().color == ColorChoice::never);
  CHECK(line.common().only_show_errors);
  CHECK(line.common().cluster_files == std::vector<std::string>{"a", "b"});
}

TEST_CASE("old names of options and verbs stand for the present ones") {
  CHECK(with_present_names({"health", "--quick", "--profile-alone"}) ==
        Words{"health", "--once", "--no-base-profile"});
  CHECK(with_present_names({"health", "fabric", "--golden=a b", "--leaves", "f"}) ==
        Words{"health", "fabric", "--baseline=a b", "--topology", "f"});
  CHECK(with_present_names({"health", "active", "active"}) ==
        Words{"health", "benchmark", "active"});
  CHECK(with_present_names({"nodes", "--rearm", "lab"}) ==
        Words{"nodes", "--reset-breaker", "lab"});
}

TEST_CASE("what only looks like an old name stays") {
  for (const Words& words : {Words{},
                             {"--quick"},
                             {"run", "--quick"},
                             {"exec", "j", "--rearm"},
                             {"health", "--quickly"},
                             {"health", "--", "--quick"},
                             {"nodes", "--quick", "active"}}) {
    CHECK(with_present_names(words) == words);
  }
}
