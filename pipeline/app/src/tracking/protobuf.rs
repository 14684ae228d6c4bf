//! Writes the subset of protocol buffers that trackers need (<https://protobuf.dev/programming-guides/encoding>).

/// A message under construction.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// Adds a field of bytes.
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }
    /// Adds a string.
    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }
    /// Adds an embedded message.
    pub fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }
    /// Adds an unsigned integer, or a boolean as 0 or 1.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.key(field, 0);
        self.varint(value);
        self
    }
    /// Adds a 64-bit float.
    pub fn double(mut self, field: u32, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Adds a 32-bit float.
    pub fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_bytes_of_the_documented_examples() {
        assert_eq!(ProtobufMessage::default().number(1, 150).as_bytes(), [0x08, 0x96, 0x01]);
        let testing = [&[0x12, 0x07][..], b"testing"].concat();
        assert_eq!(ProtobufMessage::default().text(2, "testing").as_bytes(), testing);
        let inner = ProtobufMessage::default().number(1, 150);
        assert_eq!(ProtobufMessage::default().message(3, &inner).as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(ProtobufMessage::default().text(200, "").as_bytes(), [0xc2, 0x0c, 0x00]);
        assert_eq!(
            ProtobufMessage::default().float(2, 0.5).double(1, 2.0).as_bytes()[..6],
            [0x15, 0, 0, 0, 0x3f, 0x09]
        );
    }
}
