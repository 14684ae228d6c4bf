//! The way to the API server: kubeconfig, or the service account of the Pod that this process runs in.

use crate::options::KubernetesOptions;
use k8s_openapi::NamespaceResourceScope;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take. The largest is a list of a hundred Jobs.
const ANSWER: Duration = Duration::from_secs(60);

/// A client, and the namespace of the Jobs.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Sends requests.
    pub client: Client,
    /// Where the Jobs are.
    pub namespace: String,
}

impl Connection {
    /// Reads the configuration; nothing is sent yet. Errors: invalid.
    pub async fn open(options: &KubernetesOptions) -> Result<Self> {
        trainyard_store::install_tls();
        let mut config = configuration(options).await?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(ANSWER);
        config.write_timeout = Some(ANSWER);
        // Otherwise a connection that was idle counts as one that does not answer.
        config.reset_reader_on_write = true;
        // The engine asks again, and says so meanwhile.
        config.default_retry = false;
        let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)
            .map_err(|e| Error::invalid("Kubernetes: the kubeconfig cannot be used").caused_by(&e))?;
        Ok(Self { client, namespace })
    }
    /// Objects of one kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

async fn configuration(options: &KubernetesOptions) -> Result<Config> {
    let chosen = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let broken = |e: &(dyn std::error::Error + 'static)| {
        Error::invalid("Kubernetes: there is no usable kubeconfig")
            .help("set the pool's options `kubeconfig` and `context`, or KUBECONFIG in the environment")
            .caused_by(e)
    };
    if let Some(path) = &options.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|e| broken(&e))?;
        return Config::from_custom_kubeconfig(file, &chosen).await.map_err(|e| broken(&e));
    }
    if options.context.is_some() {
        return Config::from_kubeconfig(&chosen).await.map_err(|e| broken(&e));
    }
    Config::infer().await.map_err(|e| broken(&e))
}
