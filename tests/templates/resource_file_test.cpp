// Files that describe a resource of Azure ML, not a job: which keys each kind has and needs.
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string schema = "$schema: https://azuremlschemas.azureedge.net/latest/";
const std::string blob = schema + "azureBlob.schema.json\nname: s\n";
const std::string cluster = schema + "amlCompute.schema.json\nname: c\ntype: amlcompute\n";

std::string said_of(const std::string& text) {
  const JobFile file = read_job(text);
  return std::string(file_kind_name(file.kind)) + ": " + printed(file.findings);
}

struct Row {
  std::string text;
  const char* says;
};

}  // namespace

TEST_CASE("each kind of datastore names its storage by keys of its own") {
  for (const std::string& whole :
       {blob + "type: azure_blob\naccount_name: a\ncontainer_name: c\n",
        blob + "type: azure_file\naccount_name: a\nfile_share_name: f\nprotocol: https\n",
        blob + "type: azure_data_lake_gen2\naccount_name: a\nfilesystem: f\nprotocol: abfss\n"}) {
    CAPTURE(whole);
    CHECK(said_of(whole) == "datastore: ");
  }
  const Row rows[] = {
      {"type: azure_blob\naccount_name: a\nfile_share_name: f\n", "'container_name' is required"},
      {"type: azure_blob\naccount_name: a\nfile_share_name: f\n", "unknown key 'file_share_name'"},
      {"type: azure_file\naccount_name: a\ncontainer_name: c\n", "'file_share_name' is required"},
      {"type: azure_file\nfile_share_name: f\n", "'account_name' is required"},
      {"type: azure_data_lake_gen1\naccount_name: a\n", "'store_name' is required"},
      {"type: azure_data_lake_gen2\naccount_name: a\n", "'filesystem' is required"},
      {"type: azure_data_lake_gen2\naccount_name: a\nfilesystem: f\nprotocol: wasb\n",
       "protocol: expected https, abfss or abfs"},
      {"type: azure_file\naccount_name: a\nfile_share_name: <share>\n", "replace the placeholder"},
      {"type: azure_file\naccount_name: a\nfile_share_name: f\nendpoint: [a]\n",
       "endpoint: expected text, got a list"},
      {"type: azure_file\naccount_name: a\nfile_share_name: f\ncredentials: {sas_token: [a]}\n",
       "credentials.sas_token: expected text"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK_THAT(said_of(blob + row.text), ContainsSubstring(row.says));
  }
}

TEST_CASE("a key of a resource that holds text is checked where it is there") {
  CHECK(said_of(cluster) == "compute: ");
  CHECK(said_of(cluster + "size: STANDARD_ND96\ndescription: d\ndisplay_name: e\n") == "compute: ");
  for (const char* key : {"size", "description", "display_name"}) {
    CAPTURE(key);
    CHECK_THAT(said_of(cluster + key + ": [a]\n"),
               ContainsSubstring(std::string("error: ") + key + ": expected text, got a list"));
  }
  CHECK_THAT(said_of(cluster + "min_instances: 3\nmax_instances: 2\n"),
             ContainsSubstring("max_instances: expected at least min_instances"));
  CHECK(said_of(cluster + "min_instances: 2\nmax_instances: 2\n") == "compute: ");
  CHECK_THAT(said_of(cluster + "ssh_settings: {ssh_port: {a: b}}\n"),
             ContainsSubstring("ssh_settings.ssh_port: expected text"));
}

}  // namespace muster
